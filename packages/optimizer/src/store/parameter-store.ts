import type { Parameter, ParameterUnit, UnitKeeper } from '@mtl/autograd';
import type { ProcessGroup, Work } from '@mtl/comm';
import type { Device, DType, Tensor } from '@mtl/kernels';
import type { FlatRange, ParameterRange } from './flat-layout.js';

export interface StoreOptions {
  readonly device: Device;
  /** Compute dtype of the model. */
  readonly dtype: DType;
  /** The processes over which gradients are summed. Default: this process alone. */
  readonly group?: ProcessGroup | undefined;
  /** Bytes of float32 gradients that are reduced together. Default 16 MiB. */
  readonly bucketBytes?: number | undefined;
  /**
   * The parameters of each model chunk (virtual pipeline stage) by its number. Every chunk has a backward of
   * its own; a parameter may be in several chunks. Default: all in chunk 0.
   */
  readonly chunks?: ReadonlyMap<number, readonly Parameter[]> | undefined;
  /**
   * The parameters that the model uses together: a store that does not keep all values keeps them for these.
   * Default: none.
   */
  readonly units?: readonly ParameterUnit[] | undefined;
}

/**
 * Keeps the parameters whose gradients are summed over the same processes: the values that the model computes
 * with, main gradients, and the float32 master values of what this rank updates. The elements of all its
 * trained parameters lie one after the other in one flat range; views of it are the caller's to dispose of.
 */
export interface ParameterStore extends UnitKeeper {
  readonly device: Device;
  /** Compute dtype of the model. */
  readonly dtype: DType;
  /** The processes over which gradients are summed; undefined for this process alone. */
  readonly group: ProcessGroup | undefined;
  /** True if each rank of the group updates a part of its own; otherwise all ranks update everything. */
  readonly isDivided: boolean;
  /** The parameters that are trained, in the order of their elements. */
  readonly ranges: readonly ParameterRange[];
  /** The parameters that are not trained: they have only their values in the compute dtype. */
  readonly frozen: readonly Parameter[];
  /** The ranges that this rank updates, in ascending order. */
  readonly owned: readonly FlatRange[];
  /**
   * The ranges that this rank counts in the norm of the reduced gradients: all ranks' parts cover everything
   * once, divided or not.
   */
  readonly counted: readonly FlatRange[];
  /** Bytes of this rank: for predictions of memory. */
  readonly bytes: { readonly parameters: number; readonly gradients: number };

  /** [end - start] float32: master values of elements in one owned range; in float32 those of the model. */
  master(range: FlatRange): Tensor;
  /** [end - start] in the compute dtype: where rounded master values of elements in one owned range go. */
  model(range: FlatRange): Tensor;
  /**
   * [end - start] float32: main gradients. After `reduce`, of what this rank owns and counts; after
   * `shareGradients`, of all elements of its parameters.
   */
  gradient(range: FlatRange): Tensor;

  /** Writes the initial values of all parameters for a seed, on every rank without communication. */
  initialize(seed: number): void;
  /** Calls `hook` with this rank's own gradients, in parts, before they are reduced. */
  onOwnGradients(hook: (gradients: Tensor) => void): void;
  /** Announces that the next backward is the last one of a model chunk: reductions can overlap with it. */
  expectLastBackward(chunk: number): void;
  /** Makes the gradients of what this rank owns and counts those of the group. Every rank must call it. */
  reduce(): void;
  /**
   * Starts to make what each rank has written to the gradients that it owns known to all, of at least these
   * parameters. Every rank must call it.
   */
  shareGradients(parameters: readonly Parameter[]): readonly Work[];
  /** Sets all gradients to zero, on this rank. */
  clearGradients(): void;
  /** Takes note that owned range number `index` has new values: starts to make them known to all ranks. */
  publish(index: number): void;
  /** Makes the model of all master values, after others were written. Every rank must call it. */
  refresh(): void;
  /** Waits until what was published is in the model. */
  waitForValues(): void;
  /** Frees the memory; what is under way ends before. */
  dispose(): void;
}

/** A way to keep parameters. */
export interface StoreKind {
  /**
   * True if values are there only while a unit is acquired: a reader of all of them at once, such as a
   * recorded graph, is then refused.
   */
  readonly releasesValues: boolean;
  create(parameters: readonly Parameter[], options: StoreOptions): ParameterStore;
}

/** A kind of values that a rank keeps of its parameters for training. */
export type TrainingState = 'parameters' | 'gradients' | 'optimizer';

/** A way to keep parameters that a run can choose. */
export interface ListedStore extends StoreKind {
  /** Megatron-LM's name of it, a value of --data-parallel-sharding-strategy. */
  readonly shardingStrategy: string;
  /** The states that the processes which sum gradients divide: each has a part of its own. */
  readonly divides: readonly TrainingState[];
}
