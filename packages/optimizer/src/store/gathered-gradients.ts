import type { ProcessGroup, Work } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';
import type { Bucket, FlatRange } from './flat-layout.js';
import { placeOfRange } from './owned-values.js';
import type { SharedGradients } from './stored-gradients.js';

/** A bucket to gather, with this rank's slice. */
interface SharedBucket {
  /** Undefined if no rank needs the bucket. */
  readonly bucket: Bucket | undefined;
  readonly slice: FlatRange;
}

interface WholeBucket {
  readonly bucket: Bucket;
  readonly whole: Tensor;
  readonly work: Work;
}

/**
 * Gathers gradients bucket by bucket if each rank keeps only slices. At most two complete buckets have
 * memory: the bucket that was taken last, and the next bucket, which is gathered in the meantime.
 */
export class GatheredGradients implements SharedGradients {
  readonly #buckets: readonly SharedBucket[];
  readonly #group: ProcessGroup;
  readonly #readSlice: (slice: FlatRange) => Tensor;
  #taken: WholeBucket | undefined;
  #next: WholeBucket | undefined;

  constructor(
    buckets: readonly SharedBucket[],
    {
      group,
      readSlice,
    }: {
      readonly group: ProcessGroup;
      /** Returns a view of this rank's slice. */
      readonly readSlice: (slice: FlatRange) => Tensor;
    },
  ) {
    this.#buckets = buckets;
    this.#group = group;
    this.#readSlice = readSlice;
    this.#next = this.#startBelow(buckets.length);
  }

  take(index: number): void {
    free(this.#taken);
    this.#taken = undefined;
    const next = this.#next;
    if (next === undefined || next.bucket !== this.#buckets[index]!.bucket) return;
    this.#taken = next;
    this.#next = this.#startBelow(index);
    next.work.wait();
  }

  gradient(range: FlatRange): Tensor {
    const taken = this.#taken;
    const owned = taken === undefined ? [] : [taken.bucket];
    const offset = placeOfRange(range, { owned, starts: [0] });
    return taken!.whole.view({ offset, shape: [range.end - range.start] });
  }

  finish(): void {
    for (const bucket of [this.#taken, this.#next]) free(bucket);
    this.#taken = undefined;
    this.#next = undefined;
  }

  /**
   * Starts to gather the bucket that is needed next. Buckets are taken in descending order, so this is the
   * last needed bucket whose index is smaller than `index`.
   */
  #startBelow(index: number): WholeBucket | undefined {
    const shared = this.#buckets.slice(0, index).findLast(({ bucket }) => bucket !== undefined);
    if (shared === undefined) return undefined;
    const bucket = shared.bucket!;
    using input = this.#readSlice(shared.slice);
    const { dtype, device } = input;
    const whole = Tensor.empty({ shape: [bucket.end - bucket.start], dtype, device });
    return { bucket, whole, work: this.#group.allGather({ output: whole, input }) };
  }
}

/** Frees a bucket's memory, after waiting for its gather. */
function free(bucket: WholeBucket | undefined): void {
  try {
    bucket?.work.wait();
  } finally {
    bucket?.whole.dispose();
  }
}
