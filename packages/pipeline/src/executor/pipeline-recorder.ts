import type { PassKind } from '../schedules/pipeline-schedule.js';

/** What a rank was doing for a while. */
export interface RecordedActivity {
  /** A pass, the wait for what a pass needs, or something that the trainer does between passes. */
  readonly kind: PassKind | 'wait' | 'optimizer' | 'reduce' | 'step';
  readonly chunk?: number;
  readonly microBatch?: number;
}

/** Writes down what a rank really does, and when. */
export interface PipelineRecorder {
  /** Runs `body` and keeps when it began and ended. */
  span<Result>(activity: RecordedActivity, body: () => Result): Result;
}
