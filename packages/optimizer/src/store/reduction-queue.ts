import type { Parameter } from '@mtl/autograd';
import type { Work } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import type { Bucket } from './flat-layout.js';

/**
 * Starts to reduce main gradients bucket by bucket, as soon as a bucket is ready. All ranks start the buckets
 * in the same order, regardless of the order in which gradients become ready.
 */
export class ReductionQueue {
  readonly #buckets: readonly Bucket[];
  readonly #chunks: ReadonlyMap<number, readonly Parameter[]>;
  readonly #start: (bucket: Bucket) => Work;
  readonly #bucketNumbers = new Map<Parameter, number>();
  /** For each parameter, how many chunks must still make its gradient ready in their last backward pass. */
  #numAwaited = new Map<Parameter, number>();
  /** The parameters whose gradients are not ready yet in the running last backward pass of a chunk. */
  #running = new Set<Parameter>();
  #numMissing: number[] = [];
  #works: Work[] = [];

  constructor(
    buckets: readonly Bucket[],
    {
      chunks,
      start,
    }: {
      /** The parameters of each model chunk (see `StoreOptions`). */
      readonly chunks: ReadonlyMap<number, readonly Parameter[]> | undefined;
      /** Starts the reduction of a bucket. */
      readonly start: (bucket: Bucket) => Work;
    },
  ) {
    const parameters = buckets.flatMap(({ ranges }) => ranges.map(({ parameter }) => parameter));
    this.#buckets = buckets;
    this.#chunks = chunks ?? new Map([[0, parameters]]);
    this.#start = start;
    buckets.forEach(({ ranges }, index) => {
      for (const { parameter } of ranges) {
        this.#bucketNumbers.set(parameter, index);
        parameter.onGradientReady((ready) => this.#takeReady(ready));
      }
    });
    this.#beginAnew();
  }

  /**
   * Announces that the next backward pass is the last one for this model chunk before the step. In this pass,
   * each bucket is reduced as soon as it is ready.
   */
  arm(chunk = 0): void {
    this.#running = new Set(this.#chunks.get(chunk));
  }

  /** Starts the remaining reductions in order, then waits for all reductions. */
  finish(): void {
    while (this.#works.length < this.#buckets.length) this.#startNext();
    for (const work of this.#works) work.wait();
    this.#beginAnew();
  }

  #beginAnew(): void {
    this.#works = [];
    this.#running = new Set();
    this.#numMissing = this.#buckets.map(({ ranges }) => ranges.length);
    this.#numAwaited = new Map();
    for (const parameter of [...this.#chunks.values()].flat()) {
      this.#numAwaited.set(parameter, (this.#numAwaited.get(parameter) ?? 0) + 1);
    }
  }

  #takeReady(parameter: Parameter): void {
    const numAwaited = this.#numAwaited.get(parameter)!;
    if (numAwaited === 0) {
      throw new UsageError(
        'MTL_GRADIENT_READY',
        `the gradient of ${parameter.name} was ready twice in one backward`,
        { expected: 'all uses of a parameter on one tape, so that the last one makes its gradient ready' },
      );
    }
    // otherwise, the gradient is from an earlier micro-batch of a chunk that uses the parameter
    if (!this.#running.delete(parameter)) return;
    this.#numAwaited.set(parameter, numAwaited - 1);
    if (numAwaited > 1) return;
    this.#numMissing[this.#bucketNumbers.get(parameter)!]! -= 1;
    while (this.#numMissing[this.#works.length] === 0) this.#startNext();
  }

  #startNext(): void {
    this.#works.push(this.#start(this.#buckets[this.#works.length]!));
  }
}
