import type { PipelineRecorder, RecordedActivity, RecordedSpan } from '../measured/pipeline-recorder.js';
import { nowNs } from './clock.js';

/**
 * Keeps what a rank does in memory. Times are those at which this process started and finished an activity:
 * on a GPU, where passes are only enqueued, that is not when the device ran them.
 */
export class ActivityRecorder implements PipelineRecorder {
  #spans: RecordedSpan[] = [];

  span<Result>(activity: RecordedActivity, body: () => Result): Result {
    const { kind, chunk, microBatch } = activity;
    const startNs = nowNs();
    try {
      return body();
    } finally {
      this.#spans.push({ kind, chunk, microBatch, startNs, endNs: nowNs() });
    }
  }

  /** Returns the spans that were recorded since the last call, in the order in which they ended. */
  take(): readonly RecordedSpan[] {
    const taken = this.#spans;
    this.#spans = [];
    return taken;
  }
}
