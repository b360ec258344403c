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
   * One specification for all layers, or a function from layer indices to specifications. The default is the
   * blocks that the model describes.
   */
  readonly block?: BlockSpecification | BlockOfLayer | undefined;
  readonly device: Device;
  /** The compute dtype of activations and parameters. */
  readonly dtype: DType;
  /** Seed of dropout masks. */
  readonly seed: number;
  /**
   * This stage's range of layers [start, end), by default all layers. The stage with the first layer has the
   * embedding, and the stage with the last layer has the output head.
   */
  readonly layers?: Slice;
  /**
   * The word embedding that the first and the last stage share if they are on the same process. By default,
   * the stage makes a new parameter, so a tied last stage has its own copy.
   */
  readonly wordEmbedding?: Parameter | undefined;
  /** This rank's position tables, shared by its stages. By default, this stage makes its own tables. */
  readonly positionTables?: PositionTables | undefined;
  readonly recomputation?: Recomputation;
  /** Determines which rows of micro-batches this rank owns, by default all. */
  readonly sequence?: SequencePartition | undefined;
}

/** How the stages of GPT and BERT differ, apart from heads and batches. */
export interface TransformerSpecification {
  /** Prefix of the names of layers. */
  readonly stack: 'decoder' | 'encoder';
  /** True if a query attends only to keys up to its own position. */
  readonly causal: boolean;
  readonly block: BlockSpecification | BlockOfLayer;
  /** The learned tables in the embedding (see `TransformerEmbeddingOptions`). */
  readonly tables: Readonly<Record<string, number>>;
  /** True if the last stage also computes with the word embedding. */
  readonly isTied: boolean;
  /**
   * The rows to which the norm after the last layer is applied: the complete sequence, or only the rows for
   * the heads.
   */
  readonly finalNormInput: 'sequence' | 'rows';
}
