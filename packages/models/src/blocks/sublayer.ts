import type { Dropout, Parameter, Tape, Variable } from '@mtl/autograd';
import type { ExpertLoad } from '../routing/expert-load.js';
import type { HeadScores } from './head-scores.js';
import type { LayerFactory } from './layer-factory.js';
import type { EarlierSharding } from './layer-sharding.js';
import type { MatmulCost } from './matmul-cost.js';
import type { MicroBatchContext } from './micro-batch-context.js';
import type { RowCoordinate } from './row-coordinates.js';

/** The initial distribution of weights. */
export interface BlockInitialization {
  readonly standardDeviation: number;
  /** The standard deviation of weights whose output is added to the residual stream. */
  readonly residualStandardDeviation: number;
}

/** The options that a sublayer is built from. */
export interface SublayerOptions<Specification extends { readonly kind: string }> extends EarlierSharding {
  /** The prefix of parameter names, for example `decoder.layers.3.mlp`. */
  readonly name: string;
  /** Global index of the layer. */
  readonly layer: number;
  /** H */
  readonly hiddenSize: number;
  readonly specification: Specification;
  readonly initialization: BlockInitialization;
  /** Makes this process's shards of the sublayer's linear layers and parameters. */
  readonly factory: LayerFactory;
}

export interface SublayerInput {
  /** [S, B, H], already normalized if the norm comes before the sublayer. */
  readonly input: Variable;
  /** [S, B, H], the residual to which the output is added. */
  readonly residual: Variable;
  /** The dropout of the output before the residual is added; undefined without dropout. */
  readonly dropout: Dropout | undefined;
  /**
   * The sublayer must call this function as soon as it no longer needs the input. The function releases the
   * input, which frees memory early; without the call, the input would be kept until the end of the block.
   */
  readonly used: () => void;
}

/**
 * Attention or a feed-forward network of a transformer block, with dropout and the residual sum. The
 * sublayer's last linear layer can compute both in the same pass (`rowParallelLinear`). The block adds the
 * norm.
 */
export interface Sublayer {
  /** The parameters in the order in which forward uses them. */
  readonly parameters: readonly Parameter[];
  /**
   * The cost of the sublayer's matmuls. Default: each token is multiplied by every matrix in `parameters`.
   */
  readonly matmuls?: MatmulCost | undefined;
  /** The names of the losses that the sublayer computes (`MicroBatchContext.losses`). Default: none. */
  readonly losses?: readonly string[] | undefined;
  /** The row coordinates that the sublayer reads (`MicroBatchContext.rows`). Default: none. */
  readonly reads?: readonly RowCoordinate[] | undefined;
  /**
   * Computes residual + dropout(output), [S, B, H], where S is this rank's shard under sequence parallelism.
   * Recomputation calls it again with the same arguments.
   */
  forward(tape: Tape, input: SublayerInput, context: MicroBatchContext): Variable;
  /** The number of rows for each expert of the sublayer; absent without experts. */
  readonly load?: ExpertLoad | undefined;
  /** The highest scores of the sublayer's heads; absent if the sublayer is not an attention. */
  readonly scores?: HeadScores | undefined;
  /**
   * Releases resources that are kept between passes, except parameters, which their owner disposes of.
   * Default: nothing to release.
   */
  dispose?(): void;
}
