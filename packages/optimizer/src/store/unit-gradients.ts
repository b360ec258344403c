import type { ParameterUnit } from '@mtl/autograd';
import type { ProcessGroup, Work } from '@mtl/comm';
import { add, Tensor } from '@mtl/kernels';
import { type Bucket, takeSlice } from './flat-layout.js';

/** The main gradients of a bucket. Each rank keeps a slice of their sums. */
export interface ShardedGradients {
  readonly bucket: Bucket;
  readonly units: readonly ParameterUnit[];
  /** This rank's slice of the sums over ranks and micro-batches. */
  readonly shard: Tensor;
}

/** The sums of gradients over the ranks that are in progress. */
interface PendingReduction {
  readonly work: Work;
  readonly gradients: WholeGradients;
  readonly sums: Tensor;
}

/**
 * The main gradients of units. They have memory from the first access in a backward pass until the unit is
 * released after all its operations. Then they are reduce-scattered and added to slices, in every
 * micro-batch. At most one reduction is in progress while the next unit computes.
 */
export class UnitGradients {
  readonly #gradients: readonly WholeGradients[];
  readonly #group: ProcessGroup;
  #pending: PendingReduction | undefined;
  #hook: (gradients: Tensor) => void = () => {};

  constructor(gradients: readonly ShardedGradients[], group: ProcessGroup) {
    this.#gradients = gradients.map((each) => new WholeGradients(each));
    this.#group = group;
  }

  /** Calls `hook` with this rank's own gradients before each reduction. */
  onOwnGradients(hook: (gradients: Tensor) => void): void {
    this.#hook = hook;
  }

  /** Starts to reduce the gradients of a unit that are complete. */
  release(unit: ParameterUnit): void {
    for (const gradients of this.#gradients) {
      if (gradients.units.includes(unit) && gradients.isReady) this.#startReduction(gradients);
    }
  }

  /** Reduces the remaining gradients, and waits for all sums. */
  finish(): void {
    for (const gradients of this.#gradients) {
      if (gradients.isReady || gradients.hasMemory) this.#startReduction(gradients);
    }
    this.#finishReduction();
  }

  /** Sets all gradients to zero. */
  clear(): void {
    for (const gradients of this.#gradients) {
      gradients.free();
      gradients.shard.zero();
    }
  }

  /** Frees the memory of gradients that are not reduced. First waits for a reduction in progress. */
  dispose(): void {
    const pending = this.#pending;
    this.#pending = undefined;
    try {
      pending?.work.wait();
    } catch {
      // an error here would hide the error that ends the run
    }
    pending?.sums.dispose();
    for (const gradients of this.#gradients) gradients.free();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #startReduction(gradients: WholeGradients): void {
    this.#finishReduction();
    const whole = gradients.takeWhole();
    this.#hook(whole);
    const { rank, size } = this.#group;
    const { start, end } = takeSlice({ start: 0, end: whole.size }, rank, size);
    const sums = whole.view({ offset: start, shape: [end - start] });
    const work = this.#group.reduceScatter({ output: sums, input: whole });
    whole.dispose();
    this.#pending = { work, gradients, sums };
  }

  #finishReduction(): void {
    const pending = this.#pending;
    if (pending === undefined) return;
    this.#pending = undefined;
    const { shard } = pending.gradients;
    using sums = pending.sums;
    pending.work.wait();
    add({ output: shard, left: shard, right: sums });
  }
}

/** The main gradients of a bucket on this rank, in memory that exists only during a backward pass. */
class WholeGradients {
  readonly units: readonly ParameterUnit[];
  readonly shard: Tensor;
  readonly #bucket: Bucket;
  #whole: Tensor | undefined;
  #views: readonly Tensor[] = [];
  #isReady = false;

  constructor({ bucket, units, shard }: ShardedGradients) {
    this.#bucket = bucket;
    this.units = units;
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

  /** True if a backward pass has completed gradients of the bucket since the last call that took them. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Returns the gradients, zeros if no operation wrote any. The caller disposes of the tensor. */
  takeWhole(): Tensor {
    const whole = this.#whole ?? this.#allocate();
    for (const { parameter } of this.#bucket.ranges) parameter.keepGradient();
    this.#forget();
    return whole;
  }

  free(): void {
    const whole = this.#whole;
    this.#forget();
    whole?.dispose();
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
