import { Tensor } from '@mtl/kernels';
import { batchAxis, layerAxes, reductionAxes, type ShareOfBatch, shareAmongGroups } from '@mtl/layout';
import type { ParallelGroups } from '@mtl/optimizer';

interface RanksOptions {
  /** None for a process alone. */
  readonly groups: ParallelGroups;
}

/**
 * The ranks of a training run, and collectives of all of them over numbers of a step. All ranks must call the
 * same methods. The numbers are in host memory, on every device: the host knows them and needs them, and a
 * device would first finish what is enqueued.
 */
export class Ranks {
  readonly #groups: ParallelGroups;

  constructor({ groups }: RanksOptions) {
    this.#groups = groups;
  }

  /** This process among all. */
  get rank(): number {
    return this.#groups.world?.rank ?? 0;
  }

  get size(): number {
    return this.#groups.world?.size ?? 1;
  }

  /** The samples of every batch that this rank computes. */
  get shareOfBatch(): ShareOfBatch {
    return shareAmongGroups(this.#groups);
  }

  /** True if this rank is the first of those that share every sequence. */
  get isFirstOfSequence(): boolean {
    return reductionAxes.dense.every((axis) => axis === batchAxis || (this.#groups[axis]?.rank ?? 0) === 0);
  }

  /**
   * True if this rank is the first of those that hold parts of one stage, and so of those that know a loss of
   * their positions.
   */
  get isFirstOfStage(): boolean {
    return layerAxes.dense.every((axis) => (this.#groups[axis]?.rank ?? 0) === 0);
  }

  /** The sums of some numbers over all processes. */
  sum(values: readonly number[]): readonly number[] {
    const { world } = this.#groups;
    if (world === undefined) return values;
    using tensor = this.#tensor(values);
    world.allReduce(tensor).wait();
    return tensor.toArray();
  }

  /** The largest of each of some numbers over all processes. */
  maximum(values: readonly number[]): readonly number[] {
    const { world } = this.#groups;
    if (world === undefined) return values;
    using tensor = this.#tensor(values);
    world.allReduce(tensor, { operation: 'max' }).wait();
    return tensor.toArray();
  }

  /** A number of every process, by rank. */
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
