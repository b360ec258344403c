import { countedFlops, observeOperations } from '@mtl/kernels';
import type { RecordedActivity } from '@mtl/pipeline/schedules';
import type { FusedAttentionOperation, KernelOperation, MatmulOperation } from '@mtl/planner';
import type { DryRunListener } from '../dry-run/dry-run-rank.js';
import { recordedOperation } from '../plan/recorded-operation.js';

export type TimedOperation = MatmulOperation | KernelOperation | FusedAttentionOperation;

/** An operation, and what it took each time. */
export interface OperationSamples {
  readonly operation: TimedOperation;
  /** From the end of the operation before it to its own end: with what the host does in between. */
  readonly seconds: number[];
}

/** Times the operations of a training run's passes and optimizer, on the host. */
export class OperationClock implements DryRunListener {
  /** By what the time of an operation depends on. */
  readonly samples = new Map<string, OperationSamples>();
  /** Of each pass, after its last operation. */
  readonly passSeconds: number[] = [];
  /** Of each step, outside of its passes and its optimizer. */
  readonly stepSeconds: number[] = [];
  readonly #numWarmUpSteps: number;
  #last = 0;
  #stepStart = 0;
  #inSpans = 0;

  constructor({ numWarmUpSteps }: { readonly numWarmUpSteps: number }) {
    this.#numWarmUpSteps = numWarmUpSteps;
  }

  #isWarm = false;

  beginStep(step: number): void {
    this.#isWarm = step > this.#numWarmUpSteps;
    this.#inSpans = 0;
    this.#stepStart = performance.now();
  }

  endStep(): void {
    if (!this.#isWarm) return;
    this.stepSeconds.push((performance.now() - this.#stepStart - this.#inSpans) / 1000);
  }

  span<Result>({ kind }: RecordedActivity, body: () => Result): Result {
    if (kind === 'step' || kind === 'wait' || kind === 'evaluation') return body();
    const start = performance.now();
    this.#last = start;
    const result = this.#observed(body);
    const end = performance.now();
    this.#inSpans += end - start;
    if (this.#isWarm && kind !== 'optimizer' && kind !== 'reduce') {
      this.passSeconds.push((end - this.#last) / 1000);
    }
    return result;
  }

  /** Nothing is sent, but the values of a single rank are combined, which is no part of an operation. */
  readonly onOperation = (): void => {};

  readonly onWait = (): void => {
    this.#last = performance.now();
  };

  #observed<Result>(body: () => Result): Result {
    let flops = countedFlops();
    return observeOperations((name, operands) => {
      const now = performance.now();
      if (this.#isWarm) {
        const after = countedFlops();
        const operation = recordedOperation({ name, operands }, after - flops);
        flops = after;
        const key = JSON.stringify(operation);
        const samples = this.samples.get(key) ?? { operation, seconds: [] };
        this.samples.set(key, samples);
        samples.seconds.push((now - this.#last) / 1000);
      }
      // what is written down here is no part of the next operation
      this.#last = performance.now();
    }, body);
  }
}
