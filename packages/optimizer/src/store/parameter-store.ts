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
   * True to store the master values of a bfloat16 model as the model's values and the missing 16 bits (see
   * `store_param_remainders` in Transformer Engine). This halves the memory. Ties are then rounded to the
   * larger magnitude in the model's values. Has no effect on a model in a different dtype. The default is
   * false.
   */
  readonly storesRemainders?: boolean | undefined;
  /**
   * The dtype of main gradients in memory and in reductions. With `bfloat16`, each operation computes sums in
   * float32 and rounds them when it adds them to the main gradients. The default is `float32`.
   */
  readonly gradientDtype?: 'float32' | 'bfloat16' | undefined;
  /** The processes over which the store sums gradients: an instance. By default, only this process. */
  readonly group?: ProcessGroup | undefined;
  /** How many bytes of float32 gradients are reduced together. The default is 16 MiB. */
  readonly bucketBytes?: number | undefined;
  /**
   * The parameters of each model chunk (virtual pipeline stage), by chunk index. Every chunk has its own
   * backward pass. A parameter may be in several chunks. By default, all parameters are in chunk 0.
   */
  readonly chunks?: ReadonlyMap<number, readonly Parameter[]> | undefined;
  /**
   * The units: groups of parameters that the model uses together. A store that keeps only shards gathers
   * values unit by unit. By default, there are no units.
   */
  readonly units?: readonly ParameterUnit[] | undefined;
}

/** The elements [start, end) of a frozen parameter that this rank holds. */
export interface FrozenRange extends FlatRange {
  readonly values: KeptValues;
}

/**
 * Keeps all parameters whose gradients are summed over the same processes: the values that the model computes
 * with, the main gradients, and the float32 master values that this rank updates. The elements of all trained
 * parameters form one flat range. The caller must dispose of the returned views.
 */
export interface ParameterStore extends UnitKeeper {
  readonly device: Device;
  /** Compute dtype of the model. */
  readonly dtype: DType;
  /** The dtype in which main gradients are stored. */
  readonly gradientDtype: 'float32' | 'bfloat16';
  /** True if master values are stored as the model's values and remainders. */
  readonly storesRemainders: boolean;
  /** The processes over which the store sums gradients. Undefined for a single process. */
  readonly group: ProcessGroup | undefined;
  /** True if each rank in the group updates a different part. Otherwise, all ranks update everything. */
  readonly isDivided: boolean;
  /** The ranges of the trained parameters, in the order of their elements. */
  readonly ranges: readonly ParameterRange[];
  /**
   * The parameters that are not trained. They have only values in the compute dtype, no gradients or master
   * values.
   */
  readonly frozen: readonly Parameter[];
  /**
   * The ranges that this rank updates: its slice of each bucket, beginning with the last bucket, or one range
   * of all elements if the store is not divided.
   */
  readonly owned: readonly FlatRange[];
  /**
   * The ranges that this rank counts in the norm of the reduced gradients. The ranges of all ranks in the
   * group together cover every element once, even if the store is not divided.
   */
  readonly counted: readonly FlatRange[];
  /** How many bytes this rank stores for parameters and for gradients. Used for memory predictions. */
  readonly bytes: { readonly parameters: number; readonly gradients: number };

  /**
   * Returns the master values of the elements in `range`, float32 [end - start]. An owned range must contain
   * `range`. For a float32 model, these are the model's values.
   *
   * @throws UsageError MTL_OPTIMIZER_STATE if the store keeps remainders. `masterValues` returns the values
   *   in any form
   */
  master(range: FlatRange): Tensor;
  /**
   * Returns the remainders of the elements in `range`, uint8 [2 * (end - start)]. An owned range must contain
   * `range`. Must be called only if the store has remainders.
   */
  remainder(range: FlatRange): Tensor;
  /**
   * Returns the master values of the elements in `range`, in the form in which the store keeps values. An
   * owned range must contain `range`.
   */
  masterValues(range: FlatRange): KeptValues;
  /**
   * Returns this rank's values of a frozen parameter. Values written to the result are rounded to the
   * parameter's compute dtype.
   */
  listFrozenParts(parameter: Parameter): readonly FrozenRange[];
  /**
   * Returns true if each rank in the group has a different part of this frozen parameter, or false if each
   * rank has the complete parameter.
   */
  dividesFrozen(parameter: Parameter): boolean;
  /**
   * Returns the destination for the rounded master values of the elements in `range`, [end - start] in the
   * compute dtype. An owned range must contain `range`.
   */
  model(range: FlatRange): Tensor;
  /**
   * Returns the main gradients of the elements in `range`, [end - start] in `gradientDtype`. This rank must
   * own and count the elements. Valid after `reduce`.
   */
  gradient(range: FlatRange): Tensor;

  /**
   * Writes the initial values that follow from `seed` to all parameters. Every rank computes them without
   * communication.
   */
  initialize(seed: number): void;
  /** Calls `hook` with slices of the gradients that this rank has computed, before they are reduced. */
  onOwnGradients(hook: (gradients: Tensor) => void): void;
  /**
   * Announces that the next backward pass is the last one for this model chunk, so that reductions can
   * overlap with it.
   */
  expectLastBackward(chunk: number): void;
  /**
   * Reduces the gradients over the group, for the elements that this rank owns and counts. Every rank must
   * call this method.
   */
  reduce(): void;
  /**
   * Starts to send each rank's owned gradients to all ranks, at least for `parameters`. Sends the values that
   * each rank last wrote. Every rank must call this method. The caller must call `finish` on the result
   * before gradients are cleared.
   */
  shareGradients(parameters: readonly Parameter[]): SharedGradients;
  /** Sets all gradients on this rank to zero. */
  clearGradients(): void;
  /** Starts to send the new values in the owned range with index `index` to all ranks. */
  publish(index: number): void;
  /**
   * Rounds all master values and writes them to the model, after master values have changed. Every rank must
   * call this method.
   */
  refresh(): void;
  /** Waits until the model has all published values. */
  waitForValues(): void;
  /** Frees the memory; pending operations end before. */
  dispose(): void;
}

/** A way to keep parameters. */
export interface StoreKind {
  /**
   * True if values are present only while a unit is acquired. A reader of all values at once, such as a
   * recorded graph, is then rejected.
   */
  readonly releasesValues: boolean;
  create(parameters: readonly Parameter[], options: StoreOptions): ParameterStore;
}

/** The kinds of values that a rank stores for its parameters during training. */
export type TrainingState = 'parameters' | 'gradients' | 'optimizer';

/** A kind of store that the user of a run can choose. */
export interface ListedStore extends StoreKind {
  /** Megatron-LM's name for the store: a value of --data-parallel-sharding-strategy. */
  readonly shardingStrategy: string;
  /** The states that are sharded over the processes that sum gradients. */
  readonly divides: readonly TrainingState[];
}
