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
   * The specification of all layers, or a function from layer indices to specifications. Default: the blocks
   * that the model describes.
   */
  readonly block?: BlockSpecification | BlockOfLayer | undefined;
  readonly device: Device;
  /** The compute dtype of activations and parameters. */
  readonly dtype: DType;
  /** Seed of dropout masks. */
  readonly seed: number;
  /**
   * The range of layers [start, end) of this stage. Default: all. The stage of the first layer has the
   * embedding, and the stage of the last layer has the output head.
   */
  readonly layers?: Slice;
  /**
   * The word embedding, if the first and the last stage share it on the same process. Default: a new
   * parameter. A tied last stage then has a separate copy.
   */
  readonly wordEmbedding?: Parameter | undefined;
  /** The position tables of this rank, shared by its stages. Default: this stage makes separate tables. */
  readonly positionTables?: PositionTables | undefined;
  readonly recomputation?: Recomputation;
  /** The rows of micro-batches that this rank owns. Default: all. */
  readonly sequence?: SequencePartition | undefined;
}

/** The differences between the stages of GPT and BERT, except for heads and batches. */
export interface TransformerSpecification {
  /** Prefix of the names of layers. */
  readonly stack: 'decoder' | 'encoder';
  /** True if a query attends only to keys up to its own position. */
  readonly causal: boolean;
  readonly block: BlockSpecification | BlockOfLayer;
  /** The learned tables of the embedding: see `TransformerEmbeddingOptions`. */
  readonly tables: Readonly<Record<string, number>>;
  /** True if the last stage also computes with the word embedding. */
  readonly isTied: boolean;
  /** The input of the norm after the last layer: the complete sequence, or only the rows for the heads. */
  readonly finalNormInput: 'sequence' | 'rows';
}
