import type { Parameter, ParameterUnit } from '@mtl/autograd';
import type { Slice } from '@mtl/layout';
import type { BertModelConfiguration, BertTask } from '../bert/bert-model.js';
import { BertStage } from '../bert/bert-stage.js';
import { BertTaskStage } from '../bert/bert-task-stage.js';
import { LayerFactory } from '../blocks/layer-factory.js';
import { PositionTables } from '../blocks/position-tables.js';
import type { TransformerConfiguration } from '../blocks/transformer-configuration.js';
import type { GptModelConfiguration } from '../gpt/gpt-model.js';
import { GptStage } from '../gpt/gpt-stage.js';
import type { TransformerStageOptions } from '../stages/transformer-stage-options.js';
import { vocabularyTable, wordEmbeddingName } from '../stages/vocabulary.js';

export interface BuildStagesOptions<Model extends TransformerConfiguration>
  extends Omit<TransformerStageOptions<Model>, 'layers' | 'wordEmbedding' | 'positionTables'> {
  /** The layers of each chunk, in the order of the model (see `partitionLayers`). */
  readonly layers: readonly Slice[];
  /** The pipeline rank that has each chunk, as in a schedule's `placement`. */
  readonly placement: readonly number[];
  /** This process's pipeline rank. */
  readonly rank: number;
}

/** The stages of a model that one rank has. */
export interface Stages<Stage> {
  /** The stages by chunk index: chunk 0 has the embeddings, and the last chunk has the head. */
  readonly stages: ReadonlyMap<number, Stage>;
  /** The parameters of all stages without duplicates, in the order in which the forward pass uses them. */
  readonly parameters: readonly Parameter[];
  /** Groups of parameters that a stage uses together, in the order of the forward pass. */
  readonly units: readonly ParameterUnit[];
}

/** How the stages of one kind of model are built. */
interface StageKind<Model extends TransformerConfiguration, Stage> {
  /** True if the output head shares the token embedding's weight. */
  readonly isTied: boolean;
  readonly newStage: (options: TransformerStageOptions<Model>) => Stage;
}

/**
 * Builds the model chunks of one rank. If a rank has both the first and the last chunk, both use the same
 * parameter as the tied embedding. If these chunks are on different ranks, each of the two ranks has a copy,
 * whose gradients are partial sums (axis pp). All chunks share the position tables.
 */
function buildStages<
  Model extends TransformerConfiguration,
  Stage extends { readonly parameters: readonly Parameter[]; readonly units: readonly ParameterUnit[] },
>(options: BuildStagesOptions<Model>, { isTied, newStage }: StageKind<Model, Stage>): Stages<Stage> {
  const { layers, placement, rank, ...common } = options;
  const { model } = options;
  const isOnFirstAndLastRank = isTied && placement[0] !== placement.at(-1);
  const holdsWords = placement[0] === rank || (isTied && placement.at(-1) === rank);
  const wordEmbedding = holdsWords
    ? vocabularyTable({
        model,
        factory: new LayerFactory(options),
        name: wordEmbeddingName,
        isOnFirstAndLastRank,
      })
    : undefined;
  const positionTables = new PositionTables(options.device);
  const stages = new Map<number, Stage>();
  placement.forEach((holder, chunk) => {
    if (holder !== rank) return;
    stages.set(chunk, newStage({ ...common, layers: layers[chunk]!, wordEmbedding, positionTables }));
  });
  const parameters = new Set([...stages.values()].flatMap((stage) => stage.parameters));
  const units = [...stages.values()].flatMap((stage) => stage.units);
  return { stages, units, parameters: [...parameters] };
}

export type BuildGptStagesOptions = BuildStagesOptions<GptModelConfiguration>;
export type GptStages = Stages<GptStage>;

/** Builds the chunks of a GPT that one rank holds (see `buildStages`). */
export function buildGptStages(options: BuildGptStagesOptions): GptStages {
  return buildStages(options, {
    isTied: options.model.tieEmbeddings,
    newStage: (stage) => new GptStage(stage),
  });
}

export type BuildBertStagesOptions = BuildStagesOptions<BertModelConfiguration>;
export type BertStages = Stages<BertStage>;

/** Builds the chunks of a BERT that one rank holds (see `buildStages`). */
export function buildBertStages(options: BuildBertStagesOptions): BertStages {
  return buildStages(options, { isTied: true, newStage: (stage) => new BertStage(stage) });
}

export interface BuildBertTaskStagesOptions extends BuildStagesOptions<BertModelConfiguration> {
  readonly task: BertTask;
}
export type BertTaskStages = Stages<BertTaskStage>;

/**
 * Builds the chunks that one rank holds of a BERT for a fine-tuning task (see `buildStages`). Heads are not
 * tied to the embedding.
 */
export function buildBertTaskStages({ task, ...options }: BuildBertTaskStagesOptions): BertTaskStages {
  return buildStages(options, {
    isTied: false,
    newStage: (stage) => new BertTaskStage({ ...stage, task }),
  });
}
