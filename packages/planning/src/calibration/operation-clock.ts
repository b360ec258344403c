import { observeOperations } from '@mtl/kernels';
import type { RecordedActivity } from '@mtl/pipeline/schedules';
import type { DryRunListener } from '../dry-run/dry-run-rank.js';
import { type RecordedOperation, recordedOperation } from '../plan/recorded-operation.js';

/** An operation with its measured times. */
export interface OperationSamples {
  readonly operation: RecordedOperation;
  /**
   * Seconds from the end of the previous operation to the end of this operation. The host's time between the
   * two operations is included.
   */
  readonly seconds: number[];
}

/** The times of a step. */
export interface TimedStep {
  /** Seconds of the complete step. */
  seconds: number;
  /** Samples by operation. A key consists of the properties that determine an operation's time. */
  readonly samples: Map<string, OperationSamples>;
  /** Seconds from a pass's last operation to the end of the pass, for each pass. */
  readonly passSeconds: number[];
  /** Seconds of the step outside of passes and optimizer. */
  stepSeconds: number;
}

export const newTimedStep = (): TimedStep => ({
  seconds: 0,
  samples: new Map(),
  passSeconds: [],
  stepSeconds: 0,
});

/** Times the operations of a training run's passes and optimizer, on the host. */
export class OperationClock implements DryRunListener {
  /** The steps after the warm-up. */
  readonly steps: TimedStep[] = [];
  readonly #numWarmUpSteps: number;
  /** The current step; undefined during the warm-up. */
  #step: TimedStep | undefined;
  #last = 0;
  #stepStart = 0;
  #inSpans = 0;

  constructor({ numWarmUpSteps }: { readonly numWarmUpSteps: number }) {
    this.#numWarmUpSteps = numWarmUpSteps;
  }

  beginStep(step: number): void {
    if (step > this.#numWarmUpSteps) this.#step = newTimedStep();
    this.#inSpans = 0;
    this.#stepStart = performance.now();
  }

  endStep(): void {
    if (this.#step === undefined) return;
    this.#step.stepSeconds = (performance.now() - this.#stepStart - this.#inSpans) / 1000;
    this.#step.seconds += this.#step.stepSeconds;
    this.steps.push(this.#step);
  }

  span<Result>({ kind }: RecordedActivity, body: () => Result): Result {
    if (kind === 'step' || kind === 'wait' || kind === 'evaluation') return body();
    const start = performance.now();
    this.#last = start;
    const result = this.#observed(body);
    const end = performance.now();
    this.#inSpans += end - start;
    if (this.#step !== undefined && kind !== 'optimizer' && kind !== 'reduce') {
      const seconds = (end - this.#last) / 1000;
      this.#step.passSeconds.push(seconds);
      this.#step.seconds += seconds;
    }
    return result;
  }

  /**
   * Excludes collectives from the times. Nothing is sent, but the values of the single rank are combined.
   * This takes longer than most operations, and must not count in the time of the next operation.
   */
  readonly onOperation = (): void => {
    this.#last = performance.now();
  };

  readonly onWait = this.onOperation;

  #observed<Result>(body: () => Result): Result {
    return observeOperations((name, operands, { flops }) => {
      const now = performance.now();
      if (this.#step !== undefined) {
        const operation = recordedOperation({ name, operands }, flops);
        addSample(this.#step, { operation, seconds: (now - this.#last) / 1000 });
      }
      // the time of adding a sample must not count as part of the next operation
      this.#last = performance.now();
    }, body);
  }
}

/** Adds the time of an operation to a step. */
export function addSample(
  step: TimedStep,
  { operation, seconds }: { readonly operation: RecordedOperation; readonly seconds: number },
): void {
  const key = JSON.stringify(operation);
  const samples = step.samples.get(key) ?? { operation, seconds: [] };
  step.samples.set(key, samples);
  samples.seconds.push(seconds);
  step.seconds += seconds;
}

/**
 * Returns the half of the steps whose times are nearest to the median. In these steps, the times of
 * operations add up to a typical step. Medians of individual operations would not add up, because each step
 * has a few slow operations.
 */
export function typicalSteps(steps: readonly TimedStep[]): TimedStep[] {
  const sorted = [...steps].sort((a, b) => a.seconds - b.seconds);
  const count = Math.ceil(sorted.length / 2);
  const first = Math.floor((sorted.length - count) / 2);
  return sorted.slice(first, first + count);
}
