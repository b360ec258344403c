import type { Device } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import type { ExpertParallel, TensorParallel } from '@mtl/tensor-parallel';
import type { LoraSpecification } from './lora.js';

/** The distribution of a model's layers over processes, and what they have besides their weights. */
export interface LayerFactoryOptions {
  /** The processes that share every layer, and how; default: complete layers here. */
  readonly tensorParallel?: TensorParallel | undefined;
  /** The processes among which experts are spread; default: all experts here. */
  readonly expertParallel?: ExpertParallel | undefined;
  /**
   * Low-rank adapters of the linear layers of blocks, which then alone are trained: all other parameters are
   * frozen. Default: none.
   */
  readonly lora?: LoraSpecification | undefined;
  /** The device that layers compute on. Default: cpu. */
  readonly device?: Device | undefined;
}

/** The sharding of layers in a call; undefined: they are complete here. */
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
