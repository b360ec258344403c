import type { Parameter, ParameterUnit, UnitKeeper } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import type { Device, DType, Tensor } from '@mtl/kernels';
import type { KeptValues } from '../kept-values.js';
import type { FlatRange, ParameterRange } from './flat-layout.js';
import type { SharedGradients } from './stored-gradients.js';

export interface StoreOptions {
  readonly device: Device;
  /** Compute dtype of the model. */
  readonly dtype: DType;
  /**
   * True to store the master values of a bfloat16 model as the model's values and their missing 16 bits
   * (Transformer Engine's `store_param_remainders`). This halves the memory. Ties in the model's values are
   * then rounded to the larger magnitude. It has no effect for other models. Default: false.
   */
  readonly storesRemainders?: boolean | undefined;
  /**
   * The dtype of main gradients in memory and in reductions. With `bfloat16`, the float32 sums of each
   * operation are rounded when they are added. Default: `float32`.
   */
  readonly gradientDtype?: 'float32' | 'bfloat16' | undefined;
  /** The processes over which the store sums gradients: an instance. Default: only this process. */
  readonly group?: ProcessGroup | undefined;
  /** Bytes of float32 gradients that are reduced together. Default 16 MiB. */
  readonly bucketBytes?: number | undefined;
  /**
   * The parameters of each model chunk (virtual pipeline stage), by the number of the chunk. Every chunk has
   * its own backward. A parameter may be in several chunks. Default: all parameters are in chunk 0.
   */
  readonly chunks?: ReadonlyMap<number, readonly Parameter[]> | undefined;
  /**
   * The units: parameters that the model uses together. A store that keeps only shards gathers values by
   * unit. Default: none.
   */
  readonly units?: readonly ParameterUnit[] | undefined;
}

/** Elements [start, end) of a frozen parameter on this rank. */
export interface FrozenRange extends FlatRange {
  readonly values: KeptValues;
}

/**
 * Keeps the parameters whose gradients are summed over the same processes: the values that the model computes
 * with, main gradients, and the float32 master values that this rank updates. The elements of all trained
 * parameters form a flat range. The caller disposes of views of this range.
 */
export interface ParameterStore extends UnitKeeper {
  readonly device: Device;
  /** Compute dtype of the model. */
  readonly dtype: DType;
  /** The dtype in which main gradients are kept. */
  readonly gradientDtype: 'float32' | 'bfloat16';
  /** True if master values are the model's values with remainders. */
  readonly storesRemainders: boolean;
  /** The processes over which the store sums gradients; undefined for a single process. */
  readonly group: ProcessGroup | undefined;
  /** True if each rank of the group updates a different part. Otherwise all ranks update everything. */
  readonly isDivided: boolean;
  /** The trained parameters, in the order of their elements. */
  readonly ranges: readonly ParameterRange[];
  /** The parameters that are not trained. They have only values in the compute dtype. */
  readonly frozen: readonly Parameter[];
  /** The ranges that this rank updates, in ascending order. */
  readonly owned: readonly FlatRange[];
  /**
   * The ranges that this rank counts in the norm of the reduced gradients. The ranges of all ranks of the
   * group cover everything once, whether the store is divided or not.
   */
  readonly counted: readonly FlatRange[];
  /** The bytes of this rank, for predictions of memory. */
  readonly bytes: { readonly parameters: number; readonly gradients: number };

  /**
   * [end - start] float32: the master values of elements in an owned range. For a float32 model, these are
   * the model's values.
   *
   * @throws UsageError MTL_OPTIMIZER_STATE if the store keeps remainders; `masterValues` returns the values
   *   in any form
   */
  master(range: FlatRange): Tensor;
  /** [2 (end - start)] uint8: the remainders of elements in an owned range, if the store has remainders. */
  remainder(range: FlatRange): Tensor;
  /** The master values of elements in an owned range, in the store's form. */
  masterValues(range: FlatRange): KeptValues;
  /**
   * The values of a frozen parameter on this rank. Written values are rounded to the parameter's compute
   * dtype.
   */
  listFrozenParts(parameter: Parameter): readonly FrozenRange[];
  /**
   * Returns true if each rank of the group has a different part of a frozen parameter. Otherwise each rank
   * has the complete parameter.
   */
  dividesFrozen(parameter: Parameter): boolean;
  /**
   * [end - start] in the compute dtype: the destination for rounded master values of elements in an owned
   * range.
   */
  model(range: FlatRange): Tensor;
  /**
   * [end - start] in `gradientDtype`: main gradients of elements that this rank owns and counts, valid after
   * `reduce`.
   */
  gradient(range: FlatRange): Tensor;

  /** Writes the initial values of all parameters for a seed, on every rank without communication. */
  initialize(seed: number): void;
  /** Calls `hook` with slices of this rank's own gradients before they are reduced. */
  onOwnGradients(hook: (gradients: Tensor) => void): void;
  /**
   * Announces that the next backward is the last backward of a model chunk, so that reductions can overlap
   * with it.
   */
  expectLastBackward(chunk: number): void;
  /**
   * Reduces the gradients of the elements that this rank owns and counts, over the group. Every rank must
   * call it.
   */
  reduce(): void;
  /**
   * Starts to send the owned gradients of each rank, as written, to all ranks, for at least these parameters.
   * Every rank must call it; the caller calls `finish` of the result before the gradients are cleared.
   */
  shareGradients(parameters: readonly Parameter[]): SharedGradients;
  /** Sets all gradients to zero, on this rank. */
  clearGradients(): void;
  /** Starts to send the new values of owned range number `index` to all ranks. */
  publish(index: number): void;
  /** Writes all master values, rounded, to the model after a change. Every rank must call it. */
  refresh(): void;
  /** Waits until all published values are in the model. */
  waitForValues(): void;
  /** Frees the memory; pending operations end before. */
  dispose(): void;
}

/** A way to keep parameters. */
export interface StoreKind {
  /**
   * True if values are present only while a unit is acquired: a reader of all values at once, such as a
   * recorded graph, is then refused.
   */
  readonly releasesValues: boolean;
  create(parameters: readonly Parameter[], options: StoreOptions): ParameterStore;
}

/** A kind of values that a rank stores for its parameters during training. */
export type TrainingState = 'parameters' | 'gradients' | 'optimizer';

/** A way to keep parameters that a run can choose. */
export interface ListedStore extends StoreKind {
  /** Megatron-LM's name of the store, a value of --data-parallel-sharding-strategy. */
  readonly shardingStrategy: string;
  /** The states that are sharded over the processes which sum gradients. */
  readonly divides: readonly TrainingState[];
}
