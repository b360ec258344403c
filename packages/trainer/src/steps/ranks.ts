import { Tensor } from '@mtl/kernels';
import { batchAxis, layerAxes, reductionAxes, type ShareOfBatch, shareAmongGroups } from '@mtl/layout';
import type { ParallelGroups } from '@mtl/optimizer';

interface RanksOptions {
  /** The process groups of this rank, including the world group. Empty for a single process. */
  readonly groups: ParallelGroups;
}

/**
 * The ranks of a training run, with collectives of all ranks over a step's metrics. All ranks must call the
 * same methods in the same order. The values are always in host memory, because the host produces and uses
 * them, and a collective on the device would wait for all enqueued work.
 */
export class Ranks {
  readonly #groups: ParallelGroups;

  constructor({ groups }: RanksOptions) {
    this.#groups = groups;
  }

  /** The rank of this process in the world group. */
  get rank(): number {
    return this.#groups.world?.rank ?? 0;
  }

  get size(): number {
    return this.#groups.world?.size ?? 1;
  }

  /** The share of every batch that this rank computes. See `shareAmongGroups`. */
  get shareOfBatch(): ShareOfBatch {
    return shareAmongGroups(this.#groups);
  }

  /**
   * True if this rank is the first of the ranks that share its sequences (tensor and context parallelism).
   */
  get isFirstOfSequence(): boolean {
    return reductionAxes.dense.every((axis) => axis === batchAxis || (this.#groups[axis]?.rank ?? 0) === 0);
  }

  /** True if this rank is the first of the ranks that hold the same pipeline stage for the same samples. */
  get isFirstOfStage(): boolean {
    return layerAxes.dense.every((axis) => (this.#groups[axis]?.rank ?? 0) === 0);
  }

  /** Returns the sums of `values` over all ranks, element by element. */
  sum(values: readonly number[]): readonly number[] {
    const { world } = this.#groups;
    if (world === undefined) return values;
    using tensor = this.#tensor(values);
    world.allReduce(tensor).wait();
    return tensor.toArray();
  }

  /** Returns the maximum of `values` over all ranks, element by element. */
  maximum(values: readonly number[]): readonly number[] {
    const { world } = this.#groups;
    if (world === undefined) return values;
    using tensor = this.#tensor(values);
    world.allReduce(tensor, { operation: 'max' }).wait();
    return tensor.toArray();
  }

  /** Returns the `value` of every rank, by rank. */
  ofEveryRank(value: number): readonly number[] {
    const { world } = this.#groups;
    if (world === undefined) return [value];
    using input = this.#tensor([value]);
    using output = this.#tensor(new Array<number>(world.size).fill(0));
    world.allGather({ output, input }).wait();
    return output.toArray();
  }

  #tensor(values: readonly number[]): Tensor {
    return Tensor.from(values, { shape: [values.length], dtype: 'float64' });
  }
}
