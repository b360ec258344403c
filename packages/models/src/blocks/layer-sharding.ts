import type { Device } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import type { ExpertParallel, TensorParallel } from '@mtl/tensor-parallel';
import type { LoraSpecification } from './lora.js';

/** How a model's layers are distributed over processes, and their adapters. */
export interface LayerFactoryOptions {
  /** Tensor parallelism: the processes that share every layer. Default: this process has complete layers. */
  readonly tensorParallel?: TensorParallel | undefined;
  /** The processes over which experts are sharded. Default: this process has all experts. */
  readonly expertParallel?: ExpertParallel | undefined;
  /**
   * Low-rank adapters of the linear layers of blocks. If there are any, only they are trained: all other
   * parameters are frozen. Default: none.
   */
  readonly lora?: LoraSpecification | undefined;
  /** The device that layers compute on. Default: cpu. */
  readonly device?: Device | undefined;
}

/** The sharding of layers in a call; undefined: this process has complete layers. */
export type LayerSharding = TensorParallel | undefined;

/**
 * The positions of the sequence (the rows, where samples are packed) that this process computes with between
 * the sharded regions of a call, and the sharding of layers in it.
 */
export interface Positions extends Slice {
  readonly sharding: LayerSharding;
}

/** Earlier names, accepted for one version. */
export interface EarlierSharding {
  /** @deprecated The factory makes sharded layers; calls have `sharding`. */
  readonly tensorParallel: TensorParallel | undefined;
}
