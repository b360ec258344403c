import type { PassKind } from '../schedules/pipeline-schedule.js';

/**
 * An activity of a rank: a pass, the wait for the input of a pass, a whole step or evaluation of the
 * pipeline, or the work of the trainer between passes.
 */
export interface RecordedActivity {
  readonly kind: PassKind | 'wait' | 'step' | 'evaluation' | 'optimizer' | 'reduce';
  readonly chunk?: number | undefined;
  readonly microBatch?: number | undefined;
}

/** An activity and when it began and ended, in nanoseconds of the host's monotonic clock. */
export interface RecordedSpan extends RecordedActivity {
  readonly startNs: number;
  readonly endNs: number;
}

/** Writes down what a rank really does, and when. */
export interface PipelineRecorder {
  /** Runs `body` and keeps when it began and ended. */
  span<Result>(activity: RecordedActivity, body: () => Result): Result;
}
