import type { Parameter, ParameterUnit } from '@mtl/autograd';
import type { ProcessGroup, Work } from '@mtl/comm';
import { add, type Device, Tensor } from '@mtl/kernels';
import { type FlatRange, takeSlice } from './flat-layout.js';
import { GatheredGradients } from './gathered-gradients.js';
import { placeOfRange } from './owned-values.js';
import type { SharedGradients, StoredGradients } from './stored-gradients.js';
import type { UnitBucket, UnitLayout } from './unit-layout.js';

/** A reduction over the ranks that is in progress. `sums` receives its results. */
interface PendingReduction {
  readonly work: Work;
  readonly gradients: WholeGradients;
  /** The gradients of this rank, until no rank needs them. */
  readonly whole: Tensor;
  /** The sums that are added to this rank's slice; undefined if they are written to the slice. */
  readonly sums: Tensor | undefined;
}

/**
 * The main gradients of units. Each rank keeps a slice of their sums. Complete gradients have memory from the
 * first access in a backward pass until the unit is released after all its operations. Then, in every
 * micro-batch, they are reduce-scattered and added to the slices. The first sums of a step are written to the
 * slices, which saves setting the slices to zero. At most one reduction is in progress while the next unit
 * computes.
 */
export class UnitGradients implements StoredGradients {
  readonly #layout: UnitLayout;
  readonly #group: ProcessGroup;
  /** This rank's slices of the sums over ranks and micro-batches, one after another. */
  readonly #slices: Tensor;
  readonly #gradients: readonly WholeGradients[];
  #pending: PendingReduction | undefined;
  #hook: (gradients: Tensor) => void = () => {};

  constructor(
    layout: UnitLayout,
    {
      group,
      dtype,
      device,
    }: {
      readonly group: ProcessGroup;
      readonly dtype: 'float32' | 'bfloat16';
      readonly device: Device;
    },
  ) {
    this.#layout = layout;
    this.#group = group;
    this.#slices = Tensor.zeros({ shape: [layout.sliceSize], dtype, device });
    this.#gradients = layout.buckets.map(
      (bucket, index) => new WholeGradients(bucket, this.gradient(layout.slices[index]!)),
    );
  }

  get bytes(): number {
    return this.#slices.bytes;
  }

  gradient(range: FlatRange): Tensor {
    const { slices: owned, starts } = this.#layout;
    const offset = placeOfRange(range, { owned, starts });
    return this.#slices.view({ offset, shape: [range.end - range.start] });
  }

  /** Calls `hook` with this rank's own gradients before each reduction. */
  onOwnGradients(hook: (gradients: Tensor) => void): void {
    this.#hook = hook;
  }

  /** Does nothing: every backward reduces. */
  expectLastBackward(_: number): void {}

  /** Starts to reduce the complete gradients of `unit`. */
  release(unit: ParameterUnit): void {
    for (const gradients of this.#gradients) {
      if (gradients.units.includes(unit) && gradients.isReady) this.#startReduction(gradients);
    }
  }

  /** Reduces the remaining gradients, and waits for all sums. */
  reduce(): void {
    for (const gradients of this.#gradients) {
      if (gradients.isReady || gradients.hasMemory) this.#startReduction(gradients);
    }
    this.#finishReduction();
    for (const gradients of this.#gradients) gradients.clearUnwritten();
  }

  /**
   * Returns the gradients of `parameters`. Their buckets are gathered one after the other, when the caller
   * takes them.
   */
  share(parameters: readonly Parameter[]): SharedGradients {
    const wanted = new Set(parameters);
    const { buckets, slices } = this.#layout;
    const shared = buckets.map((bucket, index) => ({
      bucket: bucket.ranges.some(({ parameter }) => wanted.has(parameter)) ? bucket : undefined,
      slice: slices[index]!,
    }));
    return new GatheredGradients(shared, { group: this.#group, readSlice: (slice) => this.gradient(slice) });
  }

  /** Forgets the sums: the slices are written anew. */
  clear(): void {
    for (const gradients of this.#gradients) gradients.clear();
  }

  dispose(): void {
    const pending = this.#pending;
    this.#pending = undefined;
    try {
      pending?.work.wait();
    } catch {
      // an error here would hide the error that ends the run
    }
    for (const tensor of [pending?.sums, pending?.whole]) tensor?.dispose();
    for (const gradients of this.#gradients) gradients.dispose();
    this.#slices.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #startReduction(gradients: WholeGradients): void {
    this.#finishReduction();
    const whole = gradients.takeWhole();
    this.#hook(whole);
    const sums = gradients.beginSums() ? undefined : this.#viewOwnSlice(whole);
    const work = this.#group.reduceScatter({ output: sums ?? gradients.shard, input: whole });
    this.#pending = { work, gradients, whole, sums };
  }

  #viewOwnSlice(whole: Tensor): Tensor {
    const { rank, size } = this.#group;
    const { start, end } = takeSlice({ start: 0, end: whole.size }, rank, size);
    return whole.view({ offset: start, shape: [end - start] });
  }

  #finishReduction(): void {
    const pending = this.#pending;
    if (pending === undefined) return;
    this.#pending = undefined;
    const { shard } = pending.gradients;
    using _ = pending.whole;
    using sums = pending.sums;
    pending.work.wait();
    if (sums !== undefined) add({ output: shard, left: shard, right: sums });
  }
}

/** The main gradients of a bucket on this rank, in memory that exists only during a backward pass. */
class WholeGradients {
  readonly units: readonly ParameterUnit[];
  /** This rank's slice of the sums. */
  readonly shard: Tensor;
  readonly #bucket: UnitBucket;
  #whole: Tensor | undefined;
  #views: readonly Tensor[] = [];
  #isReady = false;
  /** True if the slice has sums of the step. */
  #hasSums = false;

  constructor(bucket: UnitBucket, shard: Tensor) {
    this.#bucket = bucket;
    this.units = bucket.units;
    this.shard = shard;
    this.#defer();
    for (const { parameter } of bucket.ranges) {
      parameter.onGradientReady(() => {
        this.#isReady = true;
      });
    }
  }

  get hasMemory(): boolean {
    return this.#whole !== undefined;
  }

  /** True if a backward pass has completed gradients of the bucket since the last call of `takeWhole`. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /**
   * Returns the bucket's gradients, which are zeros if no operation wrote any. The caller disposes of the
   * tensor.
   */
  takeWhole(): Tensor {
    const whole = this.#whole ?? this.#allocate();
    for (const { parameter } of this.#bucket.ranges) parameter.keepGradient();
    this.#forget();
    return whole;
  }

  /**
   * Returns true for the first sums of a step, which are written over the slice, and false for all others.
   */
  beginSums(): boolean {
    const isFirst = !this.#hasSums;
    this.#hasSums = true;
    return isFirst;
  }

  /** Sets the slice to zero if no gradients of the step have been reduced. */
  clearUnwritten(): void {
    if (this.beginSums()) this.shard.zero();
  }

  /** Frees the gradients, and lets the next sums be written over the slice. */
  clear(): void {
    this.free();
    this.#hasSums = false;
  }

  free(): void {
    const whole = this.#whole;
    this.#forget();
    whole?.dispose();
  }

  dispose(): void {
    this.free();
    this.shard.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #forget(): void {
    for (const view of this.#views) view.dispose();
    this.#views = [];
    this.#whole = undefined;
    this.#isReady = false;
    this.#defer();
  }

  #defer(): void {
    for (const { parameter } of this.#bucket.ranges) parameter.deferMainGradient(() => this.#provide());
  }

  #provide(): void {
    if (this.#whole !== undefined) return;
    const whole = this.#allocate();
    this.#whole = whole;
    this.#views = this.#bucket.ranges.map(({ parameter, start }) => {
      const view = whole.view({ offset: start - this.#bucket.start, shape: parameter.shape });
      parameter.assignMainGradient(view);
      return view;
    });
  }

  #allocate(): Tensor {
    const { start, end } = this.#bucket;
    const { dtype, device } = this.shard;
    return Tensor.zeros({ shape: [end - start], dtype, device });
  }
}
