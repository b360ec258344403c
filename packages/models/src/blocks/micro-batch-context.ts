import type { AttentionSinks, Dropout, Heads, Tape, Variable } from '@mtl/autograd';
import type { Tensor } from '@mtl/kernels';
import type { RoutingOfMicroBatch } from '../routing/routing-of-micro-batch.js';
import type { EarlierSharding, LayerSharding } from './layer-sharding.js';
import type { RecomputableModule } from './recomputation.js';
import type { RowCoordinates } from './row-coordinates.js';
import type { SequencePartition } from './sequence-partition.js';
import type { LayerLosses } from './stage-losses.js';

/** A call of attention: this rank's heads, with the keys of a micro-batch or of a cache. */
export interface AttendCall extends Heads<Variable> {
  /** Global index of the layer. */
  readonly layer: number;
  /** The global index of this rank's first head. */
  readonly headOffset: number;
  /** The number of earlier positions that a query can attend to; undefined: all. */
  readonly windowSize?: number | undefined;
  /** c: attention scores s become c tanh(s / c). Default: no cap. */
  readonly softCap?: number | undefined;
  /** float32 [A]: a running maximum of each head's highest score. Generation does not change it. */
  readonly highestScores?: Tensor | undefined;
  /** Default: no sinks. */
  readonly sinks?: AttentionSinks | undefined;
  readonly dropout: DropoutSite;
}

/** A place in a model where dropout is applied. */
export interface DropoutSite {
  /** The logical name of the site, which determines its dropout masks. */
  readonly site: string;
  readonly probability: number;
}

/** The values of a micro-batch that the sublayers of a block read. */
export interface MicroBatchContext extends EarlierSharding {
  /**
   * Computes softmax(q k^T / sqrt(D)) v over the keys that each query sees: [S, B, A * E]. Training uses the
   * keys of the micro-batch, generation the keys of a cache.
   */
  attend(tape: Tape, call: AttendCall): Variable;
  /** Returns the dropout of hidden states [S, B, ...] at a site; undefined if nothing is dropped. */
  hiddenDropout(site: DropoutSite): Dropout | undefined;
  /**
   * Returns the dropout of activations [S, B, ...] inside the tensor-parallel regions, where each process has
   * all rows and the features from global column `firstColumn` on. Undefined if nothing is dropped. The
   * coordinates `regionPositions` and `regionSamples` must be declared in `Sublayer.reads`.
   */
  regionDropout(site: DropoutSite, firstColumn: number): Dropout | undefined;
  /**
   * The coordinates of activation rows, such as their positions in samples, for layers such as rotary
   * position embeddings. Only the coordinates that a sublayer declares in `Sublayer.reads` exist. Generation
   * has no sample numbers.
   */
  readonly rows: RowCoordinates;
  /**
   * Collects the losses of layers, such as a router's load-balancing loss. Undefined if such losses are not
   * used (generation).
   */
  readonly losses: LayerLosses | undefined;
  /** The state that routers keep for the micro-batch; undefined in generation. */
  readonly routing?: RoutingOfMicroBatch | undefined;
  /** The modules of layers that are recomputed in backward. Default: none. */
  readonly recomputed?: readonly RecomputableModule[] | undefined;
  /**
   * The sharding of layers in this call. Evaluation and generation do not shard the sequence, even if
   * training does.
   */
  readonly sharding: LayerSharding;
  /**
   * The processes that share sequences in this call (context parallelism); undefined: this process has all
   * rows.
   */
  readonly sequence?: Pick<SequencePartition, 'group' | 'groupWithTensor'> | undefined;
}
