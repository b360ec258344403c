import type { TraceEntry } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import type { PipelineRecorder, RecordedActivity, RecordedSpan } from '../measured/pipeline-recorder.js';
import { nowNs } from './clock.js';
import { type WriteTraceOptions, writeTrace } from './write-trace.js';

/**
 * A recorder that keeps a rank's activities in memory. An activity's times are when this process starts and
 * ends it. For a pass on a GPU, the process only enqueues the pass in this time, and the device runs it
 * later.
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

  /** Returns the spans since the last call, in the order in which they ended. */
  take(): readonly RecordedSpan[] {
    const taken = this.#spans;
    this.#spans = [];
    return taken;
  }
}

export interface StepProfilerOptions extends Omit<WriteTraceOptions, 'spans' | 'operations'> {
  /** The first step to record, as the trainer counts steps. `last` is the last step to record. */
  readonly first: number;
  readonly last: number;
  /**
   * Returns the operations of this rank's groups since the last call, as `takeTrace` of the rank's world
   * does. The world keeps only the latest 8192 operations.
   */
  readonly takeOperations: () => readonly TraceEntry[] & { readonly numDropped?: number };
}

/** Listens to the steps of a training run, and to the rank's activities in each step. */
export interface StepListener extends PipelineRecorder {
  /** Called at the start of a step, on all ranks. */
  beginStep(step: number): void;
  /** Called at the end of a step, on all ranks. */
  endStep(step: number): void;
}

/**
 * Records some steps of a training run, and writes their trace after the last recorded step. In all other
 * steps, the profiler costs one comparison for each pass.
 */
export class StepProfiler implements StepListener {
  readonly #options: StepProfilerOptions;
  readonly #recorder = new ActivityRecorder();
  readonly #operations: TraceEntry[] = [];
  #isRecording = false;

  /** @throws UsageError `MTL_PROFILE_STEPS` unless `first` to `last` is a range of steps */
  constructor(options: StepProfilerOptions) {
    const { first, last } = options;
    if (!Number.isSafeInteger(first) || !Number.isSafeInteger(last) || last < first) {
      throw new UsageError('MTL_PROFILE_STEPS', `steps ${first} to ${last} are not a range`, {
        expected: 'two whole numbers, the second not less than the first',
      });
    }
    this.#options = options;
  }

  beginStep(step: number): void {
    const { first, last, takeOperations } = this.#options;
    this.#isRecording = step >= first && step <= last;
    // discards operations of earlier steps
    if (this.#isRecording) takeOperations();
  }

  span<Result>(activity: RecordedActivity, body: () => Result): Result {
    return this.#isRecording ? this.#recorder.span(activity, body) : body();
  }

  /**
   * Ends a step, on all ranks, and writes the trace after the last recorded step. Throws the errors of
   * `writeTrace`.
   */
  endStep(step: number): void {
    if (!this.#isRecording) return;
    this.#isRecording = false;
    const operations = this.#options.takeOperations();
    const { numDropped = 0 } = operations;
    if (numDropped > 0) {
      const counts = `${numDropped} of ${numDropped + operations.length} operations of step ${step}`;
      process.emitWarning(`${this.#options.file}: the first ${counts} are missing, more than are kept`, {
        code: 'MTL_TRACE_INCOMPLETE',
      });
    }
    this.#operations.push(...operations);
    if (step < this.#options.last) return;
    writeTrace({ ...this.#options, spans: this.#recorder.take(), operations: this.#operations });
    this.#operations.length = 0;
  }
}
