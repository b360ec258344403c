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
  /** The standard deviation for weights in layers whose output is added to the residual. */
  readonly residualStandardDeviation: number;
}

/** The options for building a sublayer. */
export interface SublayerOptions<Specification extends { readonly kind: string }> extends EarlierSharding {
  /** The prefix for parameter names, for example `decoder.layers.3.mlp`. */
  readonly name: string;
  /** Global index of the layer. */
  readonly layer: number;
  /** H */
  readonly hiddenSize: number;
  readonly specification: Specification;
  readonly initialization: BlockInitialization;
  /** Makes the sublayer's linear layers and parameters: the shards of this process. */
  readonly factory: LayerFactory;
}

export interface SublayerInput {
  /** [S, B, H]. Already normalized if the norm comes before the sublayer. */
  readonly input: Variable;
  /** [S, B, H]. The sublayer adds its output to it. */
  readonly residual: Variable;
  /** The dropout for the output, applied before the residual is added. Undefined means no dropout. */
  readonly dropout: Dropout | undefined;
  /**
   * Releases the input. The sublayer must call this function as soon as it no longer needs the input. This
   * frees memory early; without the call, the input would be kept until the end of the block.
   */
  readonly used: () => void;
}

/**
 * A part of a transformer block: attention or a feed-forward network, including dropout and the residual sum.
 * The sublayer's last linear layer can compute these two in the same pass (see `rowParallelLinear`). The
 * block adds the norm.
 */
export interface Sublayer {
  /** The parameters in the order in which `forward` uses them. */
  readonly parameters: readonly Parameter[];
  /**
   * The cost of the sublayer's matmuls. By default, each token is multiplied by every matrix in `parameters`.
   */
  readonly matmuls?: MatmulCost | undefined;
  /**
   * The names of the losses that the sublayer computes (see `MicroBatchContext.losses`). Undefined means
   * none.
   */
  readonly losses?: readonly string[] | undefined;
  /** The row coordinates that the sublayer reads (see `MicroBatchContext.rows`). Undefined means none. */
  readonly reads?: readonly RowCoordinate[] | undefined;
  /**
   * Computes `residual + dropout(output)`, [S, B, H]. Under sequence parallelism, S covers only this rank's
   * shard. Recomputation calls `forward` again with the same arguments.
   */
  forward(tape: Tape, input: SublayerInput, context: MicroBatchContext): Variable;
  /** Counts the rows for each expert of the sublayer. Undefined if there are no experts. */
  readonly load?: ExpertLoad | undefined;
  /** The highest score of each head. Undefined if the sublayer is not an attention. */
  readonly scores?: HeadScores | undefined;
  /**
   * Releases resources that are kept between forward and backward passes, except parameters, which belong to
   * their owner. Undefined if there is nothing to release.
   */
  dispose?(): void;
}
