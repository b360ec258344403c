import type { Parameter } from '@mtl/autograd';
import type { ProcessGroup, Work } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import type { Tensor } from '@mtl/kernels';
import { sliceOf } from './flat-layout.js';
import type { ParameterBuffers } from './parameter-buffers.js';

/**
 * Sums main gradients over the data-parallel group, bucket by bucket, in float32: all of a bucket on every
 * rank, or with a distributed optimizer each rank's slice. Buckets start in their order on every rank,
 * whatever the order of readiness.
 */
export class GradientReducer {
  readonly #buffers: ParameterBuffers;
  readonly #group: ProcessGroup;
  readonly #chunks: ReadonlyMap<number, readonly Parameter[]>;
  readonly #onBucket: (gradients: Tensor) => void;
  readonly #bucketOf = new Map<Parameter, number>();
  /** By parameter: the number of chunks whose last backward has not made its gradient ready. */
  #numAwaited = new Map<Parameter, number>();
  /** Parameters whose gradients the last backward of a chunk has not made ready yet. */
  #running = new Set<Parameter>();
  #numMissing: number[] = [];
  #works: Work[] = [];

  constructor(
    buffers: ParameterBuffers,
    {
      group,
      chunks = new Map([[0, buffers.ranges.map(({ parameter }) => parameter)]]),
      onBucket = () => {},
    }: {
      readonly group: ProcessGroup;
      /** See `ModelOptimizerOptions`. */
      readonly chunks?: ReadonlyMap<number, readonly Parameter[]> | undefined;
      /**
       * Called with the gradients of this rank in a bucket before they are reduced. Default: does nothing.
       */
      readonly onBucket?: (gradients: Tensor) => void;
    },
  ) {
    this.#buffers = buffers;
    this.#group = group;
    this.#chunks = chunks;
    this.#onBucket = onBucket;
    buffers.buckets.forEach(({ ranges }, index) => {
      for (const { parameter } of ranges) {
        this.#bucketOf.set(parameter, index);
        parameter.onGradientReady((ready) => this.#takeReady(ready));
      }
    });
    this.#beginAnew();
  }

  /**
   * Announces that the next backward is the last one of a model chunk before the step: a bucket is reduced as
   * soon as it is ready.
   */
  arm(chunk = 0): void {
    this.#running = new Set(this.#chunks.get(chunk));
  }

  /** Starts what has not been started, in order, and waits for everything. */
  finish(): void {
    while (this.#works.length < this.#buffers.buckets.length) this.#startNext();
    for (const work of this.#works) work.wait();
    this.#beginAnew();
  }

  #beginAnew(): void {
    this.#works = [];
    this.#running = new Set();
    this.#numMissing = this.#buffers.buckets.map(({ ranges }) => ranges.length);
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
    // not running: an earlier micro-batch, of this chunk or of another that uses the parameter as well
    if (!this.#running.delete(parameter)) return;
    this.#numAwaited.set(parameter, numAwaited - 1);
    if (numAwaited > 1) return;
    this.#numMissing[this.#bucketOf.get(parameter)!]! -= 1;
    while (this.#numMissing[this.#works.length] === 0) this.#startNext();
  }

  #startNext(): void {
    const { gradients, buckets, sharing } = this.#buffers;
    const bucket = buckets[this.#works.length]!;
    using input = gradients.view({ offset: bucket.start, shape: [bucket.end - bucket.start] });
    this.#onBucket(input);
    if (!sharing.distributed) {
      this.#works.push(this.#group.allReduce(input));
      return;
    }
    const slice = sliceOf(bucket, sharing.rank, sharing.size);
    using output = gradients.view({ offset: slice.start, shape: [slice.end - slice.start] });
    this.#works.push(this.#group.reduceScatter({ output, input }));
  }
}
