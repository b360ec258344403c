import type { Device } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import type { ExpertParallel, TensorParallel } from '@mtl/tensor-parallel';
import type { LoraSpecification } from './lora.js';

/** The distribution of a model's layers over processes, and the adapters of the layers. */
export interface LayerFactoryOptions {
  /** Tensor parallelism: the processes that share every layer. Default: this process has complete layers. */
  readonly tensorParallel?: TensorParallel | undefined;
  /** The processes over which experts are sharded. Default: this process has all experts. */
  readonly expertParallel?: ExpertParallel | undefined;
  /**
   * Low-rank adapters for the linear layers of blocks. If given, only the adapters are trained: all other
   * parameters are frozen. Default: none.
   */
  readonly lora?: LoraSpecification | undefined;
  /** The device on which layers compute. Default: cpu. */
  readonly device?: Device | undefined;
}

/** The sharding of layers in a call; undefined: this process has complete layers. */
export type LayerSharding = TensorParallel | undefined;

/**
 * The sequence positions that this process computes between the tensor-parallel regions of a call, and the
 * sharding of layers in this call. For packed samples, the positions are rows.
 */
export interface Positions extends Slice {
  readonly sharding: LayerSharding;
}

/** Previous option names, which are accepted for one version. */
export interface EarlierSharding {
  /** @deprecated The factory makes sharded layers; calls have `sharding`. */
  readonly tensorParallel: TensorParallel | undefined;
}
