import { Tensor } from '@mtl/kernels';
import type { ParallelGroups } from '@mtl/optimizer';

export interface RanksOptions {
  /** None for a process alone. */
  readonly groups: ParallelGroups;
  /** The pipeline rank of the head, which knows what counts in losses. Default 0. */
  readonly lastStage?: number;
}

/**
 * Collectives of the ranks of a training run over numbers of a step. All ranks must call the same
 * methods. The numbers are in host memory, on every device: the host knows them and needs them, and a device
 * would first finish what is enqueued.
 */
export class Ranks {
  readonly #groups: ParallelGroups;
  readonly #lastStage: number;

  constructor({ groups, lastStage = 0 }: RanksOptions) {
    this.#groups = groups;
    this.#lastStage = lastStage;
  }

  get dataParallelSize(): number {
    return this.#groups.dp?.size ?? 1;
  }

  /** The sum of a whole number over the data-parallel ranks. */
  sumOverData(value: number): number {
    const { dp } = this.#groups;
    if (dp === undefined) return value;
    using tensor = this.#tensor([value]);
    dp.allReduce(tensor).wait();
    return tensor.item();
  }

  /** A number that the last stage knows, on all stages. */
  fromLastStage(value: number): number {
    const { pp } = this.#groups;
    if (pp === undefined) return value;
    using tensor = this.#tensor([value]);
    pp.broadcast(tensor, { root: this.#lastStage }).wait();
    return tensor.item();
  }

  /** The sums of some numbers over the stages. */
  sumOverStages(values: readonly number[]): readonly number[] {
    const { pp } = this.#groups;
    if (pp === undefined) return values;
    using tensor = this.#tensor(values);
    pp.allReduce(tensor).wait();
    return tensor.toArray();
  }

  /**
   * Values of all micro-batches of a global batch from those of this rank's: in the order of their samples,
   * in which one process would have them. Chunks of one micro-batch a rank follow each other (see the
   * samplers of @mtl/data).
   */
  gatherMicroBatches(values: readonly number[]): readonly number[] {
    const { dp } = this.#groups;
    if (dp === undefined || values.length === 0) return values;
    using input = this.#tensor(values);
    using output = this.#tensor(new Array<number>(values.length * dp.size).fill(0));
    dp.allGather({ output, input }).wait();
    const all = output.toArray();
    return all.map((_, index) => all[(index % dp.size) * values.length + Math.floor(index / dp.size)]!);
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
