import type { LogicalTensor } from '@mtl/checkpoint';
import type { ProcessGroup } from '@mtl/comm';
import type { ModelKind, PretrainingConfiguration } from '@mtl/configuration';
import type { SplitDatasets, SplitDatasetsOptions } from '@mtl/data';
import type { HuggingFaceOrigin, TokenizerFileSource, WritableDtype } from '@mtl/formats';
import type { NumberedBatch } from '@mtl/layout';
import type {
  BuildStagesOptions,
  EmbeddingAndHeadCost,
  LayerFactoryOptions,
  Stages,
  TransformerConfiguration,
} from '@mtl/models';
import type { Tokenizer } from '@mtl/tokenizers';
import type { LossKind, ModelFlopsShape } from '@mtl/trainer';
import type { ModelAdapters } from '../adapters/model-adapters.js';
import type { PreparedCorpus } from '../corpus/default-corpus.js';
import type { ModelSample } from '../samples/sample-continuation.js';
import type { ModelChunk, RankModel } from './model-part.js';
import type { StageBatches, StageBatchesOptions } from './stage-batches.js';

/** An opened Hugging Face directory. */
export interface HuggingFaceModel<Model> {
  readonly directory: string;
  readonly configuration: Model;
  /** The paths of the tokenizer's files in the directory, by file name. */
  readonly tokenizerFiles: Readonly<Record<string, string>>;
  /** Messages for the user. */
  readonly notices?: readonly string[];
  /** Further JSON fields from the model's directory, which are copied to exports. */
  readonly origin?: HuggingFaceOrigin;
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

export interface SaveHuggingFaceOptions<Model> {
  readonly directory: string;
  readonly model: Model;
  readonly tensors: readonly LogicalTensor[];
  /** The model's tokenizer; undefined if the model's directory has none. */
  readonly tokenizer: Tokenizer | undefined;
  readonly tokenizerFiles: Readonly<Record<string, TokenizerFileSource>>;
  /** Dtype of the stored weights. Default: F32. */
  readonly dtype?: WritableDtype;
  /** Further JSON fields, if the model came from a Hugging Face directory. */
  readonly origin?: HuggingFaceOrigin | undefined;
}

/** Inputs for generating a sample of the model's output, at evaluations and at the end of a run. */
export interface ShowOptions<Batch extends NumberedBatch, Chunk> {
  readonly configuration: PretrainingConfiguration;
  readonly part: RankModel<Batch, Chunk>;
  readonly tokenizer: Tokenizer;
  /** The datasets. The sample uses held-out data if there is any, otherwise training data. */
  readonly datasets: SplitDatasets<Batch>;
  /** The process group of the pipeline stages; undefined if a single process has all stages. */
  readonly pipelineGroup: ProcessGroup | undefined;
  /** True for a sample during the run, which is short so that it is fast. */
  readonly isBrief: boolean;
}

/** The dataset options for every kind of model, without the split into training, validation and test data. */
export type DatasetsOptions = Omit<SplitDatasetsOptions, 'splitWeights'>;

/**
 * Converts a dense model to a mixture of experts whose experts are copies of the dense model's feed-forward
 * layers.
 */
export interface ModelUpcycling<Model extends TransformerConfiguration> {
  /** Returns the dense model with the experts of `mixture` added. */
  addExperts(mixture: Model, dense: Model): Model;
  /** Returns the dense model from which `mixture` is made. */
  makeDense(mixture: Model): Model;
  isMixture(model: Model): boolean;
  /** Returns the elements of `names` that are parameters of the dense model. */
  denseNames(names: readonly string[]): readonly string[];
  /**
   * Returns the dense model's tensors for the given tensors of the mixture. Their values are copied into the
   * mixture.
   */
  tensors(tensors: readonly LogicalTensor[]): readonly LogicalTensor[];
}

/**
 * The functions of a training run that depend on the kind of model.
 *
 * @typeParam Model the architecture
 * @typeParam Batch a micro-batch
 * @typeParam Chunk a model chunk, which is a pipeline stage
 */
export interface ModelRecipe<Model extends TransformerConfiguration, Batch extends NumberedBatch, Chunk> {
  readonly kind: ModelKind;
  readonly adapters: ModelAdapters<Model>;
  /**
   * The conversion of a dense model to a mixture of experts; undefined for a kind of model without experts.
   */
  readonly upcycling: ModelUpcycling<Model> | undefined;
  /** Prepares the bundled corpus in the form that this kind of model needs. */
  prepareCorpus(options: {
    readonly directory: string;
    readonly tokenizer: PreparedCorpus['tokenizer'] | undefined;
    readonly onMessage: (text: string) => void;
  }): Promise<PreparedCorpus>;
  openDatasets(
    configuration: PretrainingConfiguration,
    options: DatasetsOptions & { readonly tokenizer: Tokenizer },
  ): SplitDatasets<Batch>;
  /** Returns this rank's micro-batches. */
  batches(options: StageBatchesOptions<Batch>): StageBatches<Batch>;
  /** Returns a micro-batch for a dry run: arbitrary tokens in full sequences. */
  placeholderBatch(configuration: PretrainingConfiguration): Batch;
  /** Returns the architecture that the configuration describes, with the given vocabulary size. */
  describeModel(configuration: PretrainingConfiguration, vocabularySize: number): Model;
  numParameters(model: Model): number;
  /** Returns the number of parameters that a single token uses; undefined if it uses all parameters. */
  numActiveParameters(model: Model): number | undefined;
  /** Returns the names of all parameters, including adapters. */
  parameterNames(model: Model, layers?: LayerFactoryOptions): readonly string[];
  /** Returns the sizes in the model FLOPs formula that depend on the kind of model. */
  describeMatmuls(
    configuration: PretrainingConfiguration,
    model: Model,
  ): Pick<ModelFlopsShape, 'weights' | 'heldWeights' | 'attentionFeatures' | 'headShare'>;
  embeddingAndHeadCost(configuration: PretrainingConfiguration, model: Model): EmbeddingAndHeadCost;
  buildStages(options: BuildStagesOptions<Model>): Stages<Chunk>;
  losses(model: Model): readonly LossKind<Batch>[];
  openHuggingFace(
    configuration: PretrainingConfiguration,
    directory: string,
  ): Promise<HuggingFaceModel<Model>>;
  saveHuggingFace(options: SaveHuggingFaceOptions<Model>): Promise<void>;
  /**
   * Returns a sample of the model's output as text. Every rank of the first replica must call this function.
   */
  show(options: ShowOptions<Batch, Chunk>): Promise<ModelSample | undefined>;
}

/** A recipe for any kind of model. */
export type AnyModelRecipe = ModelRecipe<TransformerConfiguration, NumberedBatch, ModelChunk<NumberedBatch>>;
