import type { AttentionSinks, Dropout, Heads, Tape, Variable } from '@mtl/autograd';
import type { Tensor } from '@mtl/kernels';
import type { RoutingOfMicroBatch } from '../routing/routing-of-micro-batch.js';
import type { EarlierSharding, LayerSharding } from './layer-sharding.js';
import type { RecomputableModule } from './recomputation.js';
import type { RowCoordinates } from './row-coordinates.js';
import type { SequencePartition } from './sequence-partition.js';
import type { LayerLosses } from './stage-losses.js';

/** Attention of the heads of this rank, over the keys of a micro-batch or of a cache. */
export interface AttendCall extends Heads<Variable> {
  /** Global index of the layer. */
  readonly layer: number;
  /** Global number of the first head. */
  readonly headOffset: number;
  /** A query sees its own position and this number of positions before it; undefined: all. */
  readonly windowSize?: number | undefined;
  /** c: scores s become c tanh(s / c). Default: no cap. */
  readonly softCap?: number | undefined;
  /** [A] float32: raised to the highest score of each head. Generation leaves it as it is. */
  readonly highestScores?: Tensor | undefined;
  /** Default: no sinks. */
  readonly sinks?: AttentionSinks | undefined;
  readonly dropout: DropoutSite;
}

/** A place in a model where values are dropped. */
export interface DropoutSite {
  /** The logical name of the site; its dropout masks depend on the name. */
  readonly site: string;
  readonly probability: number;
}

/** The values that the sublayers of a block read of a micro-batch. */
export interface MicroBatchContext extends EarlierSharding {
  /**
   * Computes softmax(q k^T / sqrt(D)) v over the keys that each query sees: [S, B, A * E]. Training uses the
   * keys of the micro-batch, generation the keys of a cache.
   */
  attend(tape: Tape, call: AttendCall): Variable;
  /** Returns the dropout of hidden states [S, B, ...] at a site; undefined where nothing is dropped. */
  hiddenDropout(site: DropoutSite): Dropout | undefined;
  /**
   * Returns the dropout of activations [S, B, ...] inside the sharded regions, for all rows; the features
   * start at global column `firstColumn`. Undefined where nothing is dropped. Needs the coordinates
   * `regionPositions` and `regionSamples`.
   */
  regionDropout(site: DropoutSite, firstColumn: number): Dropout | undefined;
  /**
   * The coordinates of the rows of activations, such as their positions in samples, for layers that depend on
   * them (rotary position embeddings). There are only the coordinates that a sublayer declares to read
   * (`Sublayer.reads`). Generation has no sample numbers.
   */
  readonly rows: RowCoordinates;
  /**
   * Collects losses of the layers, such as the balancing loss of a router; undefined where no such loss
   * counts (generation).
   */
  readonly losses: LayerLosses | undefined;
  /** The state that routers keep of the micro-batch; undefined in generation. */
  readonly routing?: RoutingOfMicroBatch | undefined;
  /** Parts of layers that are to be computed again in backward. Default: none. */
  readonly recomputed?: readonly RecomputableModule[] | undefined;
  /**
   * The sharding of layers in this call: evaluation and generation do not shard the sequence even where
   * training does.
   */
  readonly sharding: LayerSharding;
  /**
   * The processes that share sequences in this call; undefined: this process has all rows of the sequences.
   */
  readonly sequence?: Pick<SequencePartition, 'group' | 'groupWithTensor'> | undefined;
}
