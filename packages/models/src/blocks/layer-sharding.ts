import type { Device } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import type { ExpertParallel, TensorParallel } from '@mtl/tensor-parallel';
import type { LoraSpecification } from './lora.js';

/** How the layers of a model are distributed over processes, and which adapters the layers have. */
export interface LayerFactoryOptions {
  /**
   * Tensor parallelism: the processes that share every layer. Default: this process holds complete layers.
   */
  readonly tensorParallel?: TensorParallel | undefined;
  /** The processes over which experts are sharded. Default: this process holds all experts. */
  readonly expertParallel?: ExpertParallel | undefined;
  /**
   * Low-rank adapters for the linear layers of blocks. If given, only the adapters are trained: all other
   * parameters are frozen. Default: none.
   */
  readonly lora?: LoraSpecification | undefined;
  /** The device on which layers compute. Default: cpu. */
  readonly device?: Device | undefined;
}

/** How layers are sharded in a call; undefined: this process holds complete layers. */
export type LayerSharding = TensorParallel | undefined;

/**
 * The sequence positions that this process computes between the tensor-parallel regions of a call (the packed
 * rows, if samples are packed), and the sharding of layers in this call.
 */
export interface Positions extends Slice {
  readonly sharding: LayerSharding;
}

/** Earlier option names, which are accepted for one version. */
export interface EarlierSharding {
  /** @deprecated The factory makes sharded layers; calls have `sharding`. */
  readonly tensorParallel: TensorParallel | undefined;
}
