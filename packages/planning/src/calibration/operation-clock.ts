import { observeOperations } from '@mtl/kernels/internal';
import type { RecordedActivity } from '@mtl/pipeline/schedules';
import type { DryRunListener } from '../dry-run/dry-run-rank.js';
import { type RecordedOperation, recordedOperation } from '../plan/recorded-operation.js';

/** An operation, and what it took each time. */
export interface OperationSamples {
  readonly operation: RecordedOperation;
  /** From the end of the operation before it to its own end: with what the host does in between. */
  readonly seconds: number[];
}

/** Times of one step. */
export interface TimedStep {
  /** Seconds of all operations, passes and the rest. */
  seconds: number;
  /** By what the time of an operation depends on. */
  readonly samples: Map<string, OperationSamples>;
  /** Seconds of each pass, after its last operation. */
  readonly passSeconds: number[];
  /** Outside of passes and optimizer. */
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
  /** The steps after those of the warm-up. */
  readonly steps: TimedStep[] = [];
  readonly #numWarmUpSteps: number;
  /** Undefined in the warm-up. */
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
   * Nothing is sent, but the values of a single rank are combined, which takes longer than most operations
   * and is no part of the next one, also where that runs before the rank waits.
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
      // what is written down here is no part of the next operation
      this.#last = performance.now();
    }, body);
  }
}

/** Adds what an operation took to a step. */
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
 * Half of the steps: those whose times are nearest to the median, in which the times of operations add up to
 * a typical step. (Medians of operations would not: each step has some that take long.)
 */
export function typicalSteps(steps: readonly TimedStep[]): TimedStep[] {
  const sorted = [...steps].sort((a, b) => a.seconds - b.seconds);
  const count = Math.ceil(sorted.length / 2);
  const first = Math.floor((sorted.length - count) / 2);
  return sorted.slice(first, first + count);
}
