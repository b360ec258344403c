import type { PassKind } from '../schedules/pipeline-schedule.js';

/**
 * An activity of a rank: a forward or backward pass, the wait for a pass's input, a complete step or
 * evaluation of the pipeline, or the trainer's work between passes.
 */
export interface RecordedActivity {
  readonly kind: PassKind | 'wait' | 'step' | 'evaluation' | 'optimizer' | 'reduce';
  readonly chunk?: number | undefined;
  readonly microBatch?: number | undefined;
}

/** An activity with its start and end, in nanoseconds of the host's monotonic clock. */
export interface RecordedSpan extends RecordedActivity {
  readonly startNs: number;
  readonly endNs: number;
}

/** A recorder of a rank's activities and their times. */
export interface PipelineRecorder {
  /** Runs `body`, and records its start and end. */
  span<Result>(activity: RecordedActivity, body: () => Result): Result;
}
