import type { AttentionSinks, Dropout, Heads, Tape, Variable } from '@mtl/autograd';
import type { Tensor } from '@mtl/kernels';
import type { RoutingOfMicroBatch } from '../routing/routing-of-micro-batch.js';
import type { EarlierSharding, LayerSharding } from './layer-sharding.js';
import type { RecomputableModule } from './recomputation.js';
import type { RowCoordinates } from './row-coordinates.js';
import type { SequencePartition } from './sequence-partition.js';
import type { LayerLosses } from './stage-losses.js';

/** A call of attention. It contains this rank's heads. The keys come from a micro-batch or from a cache. */
export interface AttendCall extends Heads<Variable> {
  /** Global index of the layer. */
  readonly layer: number;
  /** The global index of this rank's first head. */
  readonly headOffset: number;
  /** How many earlier positions a query can attend to. Undefined means all. */
  readonly windowSize?: number | undefined;
  /** The soft cap c: an attention score s becomes `c * tanh(s / c)`. Default: no soft cap. */
  readonly softCap?: number | undefined;
  /**
   * float32 [A]: the highest score of each head so far, which the call updates. Generation does not change
   * it.
   */
  readonly highestScores?: Tensor | undefined;
  /** Default: no sinks. */
  readonly sinks?: AttentionSinks | undefined;
  readonly dropout: DropoutSite;
}

/** A place in a model where dropout is applied. */
export interface DropoutSite {
  /** The site's logical name, which determines its dropout masks. */
  readonly site: string;
  readonly probability: number;
}

/** The properties of a micro-batch that a block's sublayers read. */
export interface MicroBatchContext extends EarlierSharding {
  /**
   * Computes softmax(q @ k^T / sqrt(D)) @ v over the keys to which each query attends: [S, B, A * E]. In
   * training, the keys come from the micro-batch; in generation, from a cache.
   */
  attend(tape: Tape, call: AttendCall): Variable;
  /** Returns the dropout of hidden states [S, B, ...] at a site; undefined if nothing is dropped. */
  hiddenDropout(site: DropoutSite): Dropout | undefined;
  /**
   * Returns the dropout of activations [S, B, ...] inside the tensor-parallel regions, where each process has
   * all rows and the features from global column `firstColumn` on. Undefined if nothing is dropped. A
   * sublayer that calls this function must declare the coordinates `regionPositions` and `regionSamples` in
   * `Sublayer.reads`.
   */
  regionDropout(site: DropoutSite, firstColumn: number): Dropout | undefined;
  /**
   * The coordinates of activation rows, such as their positions in samples, for layers such as rotary
   * position embeddings. Contains only the coordinates that a sublayer declares in `Sublayer.reads`. In
   * generation, there are no sample indices.
   */
  readonly rows: RowCoordinates;
  /**
   * Collects losses that layers compute, such as a router's load-balancing loss. Undefined if such losses are
   * not used, as in generation.
   */
  readonly losses: LayerLosses | undefined;
  /** The state that routers keep during a micro-batch; undefined in generation. */
  readonly routing?: RoutingOfMicroBatch | undefined;
  /**
   * The recomputed modules: parts of layers whose activations are computed again in the backward pass.
   * Default: none.
   */
  readonly recomputed?: readonly RecomputableModule[] | undefined;
  /**
   * How layers are sharded in this call. Evaluation and generation do not shard the sequence, even if
   * training does.
   */
  readonly sharding: LayerSharding;
  /**
   * The processes that share sequences in this call (context parallelism). Undefined if this process has all
   * rows.
   */
  readonly sequence?: Pick<SequencePartition, 'group' | 'groupWithTensor'> | undefined;
}
