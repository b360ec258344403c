import type { Parameter } from '@mtl/autograd';
import type { ProcessGroup, Work } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { sliceOf } from './flat-layout.js';
import type { ParameterBuffers } from './parameter-buffers.js';

/**
 * Sums main gradients over the data-parallel group, bucket by bucket, in float32: all of a bucket on every rank, or with a
 * distributed optimizer each rank's slice. Buckets start in their order on every rank, whatever the order of readiness.
 */
export class GradientReducer {
  readonly #buffers: ParameterBuffers;
  readonly #group: ProcessGroup;
  readonly #bucketOf = new Map<Parameter, number>();
  readonly #ready = new Set<Parameter>();
  #numMissing: number[] = [];
  #works: Work[] = [];
  #isArmed = false;

  constructor(buffers: ParameterBuffers, group: ProcessGroup) {
    this.#buffers = buffers;
    this.#group = group;
    buffers.buckets.forEach(({ ranges }, index) => {
      for (const { parameter } of ranges) {
        this.#bucketOf.set(parameter, index);
        parameter.onGradientReady((ready) => this.#takeReady(ready));
      }
    });
  }

  /** Says that the next backward is the last before the step: a bucket whose gradients are ready is reduced at once. */
  arm(): void {
    this.#isArmed = true;
    this.#ready.clear();
    this.#numMissing = this.#buffers.buckets.map(({ ranges }) => ranges.length);
  }

  /** Starts what has not been started, in order, and waits for everything. */
  finish(): void {
    this.#isArmed = false;
    while (this.#works.length < this.#buffers.buckets.length) this.#startNext();
    for (const work of this.#works) work.wait();
    this.#works = [];
  }

  #takeReady(parameter: Parameter): void {
    if (!this.#isArmed) return;
    if (this.#ready.has(parameter)) {
      throw new UsageError(
        'MTL_GRADIENT_READY',
        `the gradient of ${parameter.name} was ready twice in one backward`,
        { expected: 'all uses of a parameter on one tape, so that the last one makes its gradient ready' },
      );
    }
    this.#ready.add(parameter);
    this.#numMissing[this.#bucketOf.get(parameter)!]! -= 1;
    while (this.#numMissing[this.#works.length] === 0) this.#startNext();
  }

  #startNext(): void {
    const { gradients, buckets, sharing } = this.#buffers;
    const bucket = buckets[this.#works.length]!;
    using input = gradients.view({ offset: bucket.start, shape: [bucket.end - bucket.start] });
    if (!sharing.distributed) {
      this.#works.push(this.#group.allReduce(input));
      return;
    }
    const slice = sliceOf(bucket, sharing.rank, sharing.size);
    using output = gradients.view({ offset: slice.start, shape: [slice.end - slice.start] });
    this.#works.push(this.#group.reduceScatter({ output, input }));
  }
}
