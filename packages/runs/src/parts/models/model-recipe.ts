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

/** A Hugging Face directory that was opened. */
export interface HuggingFaceModel<Model> {
  readonly directory: string;
  readonly configuration: Model;
  /** The tokenizer's files in the directory: name to path. */
  readonly tokenizerFiles: Readonly<Record<string, string>>;
  /** Messages for the user. */
  readonly notices?: readonly string[];
  /** Further fields that came with the model and are preserved in exports. */
  readonly origin?: HuggingFaceOrigin;
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

export interface SaveHuggingFaceOptions<Model> {
  readonly directory: string;
  readonly model: Model;
  readonly tensors: readonly LogicalTensor[];
  /** The tokenizer of the model; undefined if the model came without one. */
  readonly tokenizer: Tokenizer | undefined;
  readonly tokenizerFiles: Readonly<Record<string, TokenizerFileSource>>;
  /** Dtype that weights are stored as. Default F32. */
  readonly dtype?: WritableDtype;
  /** Origin of a model that came from a Hugging Face directory. */
  readonly origin?: HuggingFaceOrigin | undefined;
}

/** Inputs of a sample, at evaluations and at the end of a run. */
export interface ShowOptions<Batch extends NumberedBatch, Chunk> {
  readonly configuration: PretrainingConfiguration;
  readonly part: RankModel<Batch, Chunk>;
  readonly tokenizer: Tokenizer;
  /** Held-out data if there is any, else the training data. */
  readonly datasets: SplitDatasets<Batch>;
  /** The stages of the model; undefined if one process has all stages. */
  readonly pipelineGroup: ProcessGroup | undefined;
  /** True while the run continues: the sample is short and fast. */
  readonly isBrief: boolean;
}

/** Options of datasets for every kind of model, in addition to the tokenizer. */
export type DatasetsOptions = Omit<SplitDatasetsOptions, 'splitWeights'>;

/** The conversion of a dense model to a mixture of experts that are copies of its layers. */
export interface ModelUpcycling<Model extends TransformerConfiguration> {
  /** Returns a dense model with the experts of another one. */
  addExperts(mixture: Model, dense: Model): Model;
  /** Returns the dense model that a mixture is made from. */
  makeDense(mixture: Model): Model;
  isMixture(model: Model): boolean;
  /** Returns the names of parameters that the dense model has. */
  denseNames(names: readonly string[]): readonly string[];
  /** Returns tensors of the mixture as tensors of the dense model, to be filled from it. */
  tensors(tensors: readonly LogicalTensor[]): readonly LogicalTensor[];
}

/**
 * The parts of a training run that depend on the kind of model.
 *
 * @typeParam Model its architecture
 * @typeParam Batch its micro-batches
 * @typeParam Chunk its stages
 */
export interface ModelRecipe<Model extends TransformerConfiguration, Batch extends NumberedBatch, Chunk> {
  readonly kind: ModelKind;
  readonly adapters: ModelAdapters<Model>;
  /** Undefined for a kind of model that has no experts. */
  readonly upcycling: ModelUpcycling<Model> | undefined;
  /** Prepares the bundled corpus for the kind of model. */
  prepareCorpus(options: {
    readonly directory: string;
    readonly tokenizer: PreparedCorpus['tokenizer'] | undefined;
    readonly onMessage: (text: string) => void;
  }): Promise<PreparedCorpus>;
  openDatasets(
    configuration: PretrainingConfiguration,
    options: DatasetsOptions & { readonly tokenizer: Tokenizer },
  ): SplitDatasets<Batch>;
  /** This rank's micro-batches. */
  batches(options: StageBatchesOptions<Batch>): StageBatches<Batch>;
  /** Returns a micro-batch of a dry run: arbitrary tokens that fill their sequences. */
  placeholderBatch(configuration: PretrainingConfiguration): Batch;
  /** Returns the architecture that flags and a vocabulary describe. */
  describeModel(configuration: PretrainingConfiguration, vocabularySize: number): Model;
  numParameters(model: Model): number;
  /** Returns the number of parameters that a token uses; undefined if it uses all. */
  numActiveParameters(model: Model): number | undefined;
  /** Returns the names of all parameters, adapters included. */
  parameterNames(model: Model, layers?: LayerFactoryOptions): readonly string[];
  /** Returns the sizes that the model's own part of the FLOPs depends on. */
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
  /** Returns a sample of what the model has learned, as text; every rank of the first replica calls it. */
  show(options: ShowOptions<Batch, Chunk>): Promise<ModelSample | undefined>;
}

/** A recipe for code that is independent of the kind of model. */
export type AnyModelRecipe = ModelRecipe<TransformerConfiguration, NumberedBatch, ModelChunk<NumberedBatch>>;
