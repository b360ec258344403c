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
  /** The standard deviation of weights whose output is added to the residual. */
  readonly residualStandardDeviation: number;
}

/** The options that a sublayer is built from. */
export interface SublayerOptions<Specification extends { readonly kind: string }> extends EarlierSharding {
  /** Prefix of parameter names: `decoder.layers.3.mlp`. */
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
  /** [S, B, H], normalized if the norm comes before the sublayer. */
  readonly input: Variable;
  /** [S, B, H], to which the output is added. */
  readonly residual: Variable;
  /** The dropout of the output, before it is added to the residual; undefined where nothing is dropped. */
  readonly dropout: Dropout | undefined;
  /**
   * Releases the input as soon as nothing more is computed with it, which frees its memory early. If a
   * sublayer does not call this function, the input is kept until the end of the block.
   */
  readonly used: () => void;
}

/**
 * Attention or a feed-forward network of a transformer block, with dropout and residual, which its last layer
 * can add in the same pass (`rowParallelLinear`). The block adds the norm.
 */
export interface Sublayer {
  /** The parameters in the order in which forward uses them. */
  readonly parameters: readonly Parameter[];
  /** The cost of its matmuls. Default: each token is multiplied with every matrix among `parameters`. */
  readonly matmuls?: MatmulCost | undefined;
  /** The names of the losses that the sublayer makes (`MicroBatchContext.losses`). Default: none. */
  readonly losses?: readonly string[] | undefined;
  /** The coordinates of rows that the sublayer reads (`MicroBatchContext.rows`). Default: none. */
  readonly reads?: readonly RowCoordinate[] | undefined;
  /**
   * Computes residual + dropout(output), [S, B, H], S being this rank's shard under sequence parallelism. It
   * is called again with the same arguments where layers are recomputed.
   */
  forward(tape: Tape, input: SublayerInput, context: MicroBatchContext): Variable;
  /** The numbers of rows that the sublayer's experts get, if it has experts. */
  readonly load?: ExpertLoad | undefined;
  /** The highest scores of the sublayer's heads, if it is an attention. */
  readonly scores?: HeadScores | undefined;
  /**
   * Releases resources that are held between passes, except parameters, which the owner disposes of. Default:
   * nothing.
   */
  dispose?(): void;
}
