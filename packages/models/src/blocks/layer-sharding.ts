import type { Device } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import type { ExpertParallel, TensorParallel } from '@mtl/tensor-parallel';
import type { LoraSpecification } from './lora.js';

/** How a model's layers are distributed over processes, and which adapters they have. */
export interface LayerFactoryOptions {
  /** Tensor parallelism: the processes that share every layer. Default: this process has complete layers. */
  readonly tensorParallel?: TensorParallel | undefined;
  /** The processes over which experts are sharded. Default: this process has all experts. */
  readonly expertParallel?: ExpertParallel | undefined;
  /**
   * Low-rank adapters for the linear layers of blocks. If they are given, only the adapters are trained, and
   * all other parameters are frozen. Default: none.
   */
  readonly lora?: LoraSpecification | undefined;
  /** The device on which layers compute. Default: cpu. */
  readonly device?: Device | undefined;
}

/** How a call's layers are sharded. Undefined means that this process has complete layers. */
export type LayerSharding = TensorParallel | undefined;

/**
 * The sequence positions that this process computes between a call's tensor-parallel regions, and how the
 * call's layers are sharded. For packed samples, the positions are rows.
 */
export interface Positions extends Slice {
  readonly sharding: LayerSharding;
}

/** The previous names of options, which are still accepted for one version. */
export interface EarlierSharding {
  /** @deprecated The factory makes sharded layers, and calls have `sharding`. */
  readonly tensorParallel: TensorParallel | undefined;
}
