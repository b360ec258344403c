import type { ProcessGroup, Work } from '@mtl/comm';
import { type Bucket, sliceOf } from './flat-layout.js';
import type { ParameterBuffers } from './parameter-buffers.js';

/**
 * All-gathers the updated slices of all data-parallel ranks, bucket by bucket, in the model's dtype. A
 * parameter waits for its bucket when it is next read, so the gather overlaps with the forward pass unless
 * `finish` is called.
 */
export class ParameterGatherer {
  readonly #buffers: ParameterBuffers;
  readonly #group: ProcessGroup;
  #works: Work[] = [];

  constructor(buffers: ParameterBuffers, group: ProcessGroup) {
    this.#buffers = buffers;
    this.#group = group;
  }

  start(bucket: Bucket): void {
    const { model, sharing } = this.#buffers;
    const slice = sliceOf(bucket, sharing.rank, sharing.size);
    using output = model.view({ offset: bucket.start, shape: [bucket.end - bucket.start] });
    using input = model.view({ offset: slice.start, shape: [slice.end - slice.start] });
    const work = this.#group.allGather({ output, input });
    this.#works.push(work);
    for (const { parameter } of bucket.ranges) parameter.deferData(() => work.wait());
  }

  /** Waits for all gathers that were started. */
  finish(): void {
    for (const work of this.#works) work.wait();
    this.#works = [];
  }

  /**
   * Waits until nothing writes into the buffers any more, so that they can be freed. What has failed has
   * ended too; who needs its result hears of it.
   */
  abandon(): void {
    for (const work of this.#works) {
      try {
        work.wait();
      } catch {
        // an error here would hide the one for which the run ends
      }
    }
    this.#works = [];
  }
}
