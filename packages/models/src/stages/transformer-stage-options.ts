import type { Parameter } from '@mtl/autograd';
import type { Device, DType } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import type { LayerFactoryOptions } from '../blocks/layer-sharding.js';
import type { PositionTables } from '../blocks/position-tables.js';
import type { Recomputation } from '../blocks/recomputation.js';
import type { SequencePartition } from '../blocks/sequence-partition.js';
import type { TransformerConfiguration } from '../blocks/transformer-configuration.js';
import type { BlockOfLayer, BlockSpecification } from './block-specification.js';

export interface TransformerStageOptions<Model extends TransformerConfiguration> extends LayerFactoryOptions {
  readonly model: Model;
  /**
   * The specification of the layers, one for all or each by its index; default: the blocks of the model's
   * kind.
   */
  readonly block?: BlockSpecification | BlockOfLayer | undefined;
  readonly device: Device;
  /** Compute dtype of activations and of the parameters' data. */
  readonly dtype: DType;
  /** Seed of dropout masks. */
  readonly seed: number;
  /**
   * Layers [start, end) of the model; default all. The first holds the embedding, the last the output head.
   */
  readonly layers?: Slice;
  /**
   * The word embedding of the first stage and, if tied, of the last stage, where one process holds both.
   * Default: a new one; the last stage then has a copy.
   */
  readonly wordEmbedding?: Parameter | undefined;
  /** The position tables of this rank, if it holds several stages. Default: tables of this stage alone. */
  readonly positionTables?: PositionTables | undefined;
  readonly recomputation?: Recomputation;
  /** The rows of micro-batches that this rank owns. Default: all. */
  readonly sequence?: SequencePartition | undefined;
}

/** The differences between the stages of GPT and BERT, apart from heads and batches. */
export interface TransformerSpecification {
  /** Prefix of the names of layers. */
  readonly stack: 'decoder' | 'encoder';
  /** True if a query sees keys up to its own position only. */
  readonly causal: boolean;
  readonly block: BlockSpecification | BlockOfLayer;
  /** The learned tables: see `TransformerEmbeddingOptions`. */
  readonly tables: Readonly<Record<string, number>>;
  /** True if the last stage computes with the word embedding too. */
  readonly isTied: boolean;
  /** The input of the norm after the last layer: the sequence, or rows that are gathered for the heads. */
  readonly finalNormInput: 'sequence' | 'rows';
}
