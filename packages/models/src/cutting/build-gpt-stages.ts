import type { Parameter, Slice } from '@mtl/autograd';
import { vocabularyTable, wordEmbeddingName } from '../blocks/stage-parameters.js';
import { GptStage, type GptStageOptions } from '../gpt/gpt-stage.js';

export interface BuildGptStagesOptions extends Omit<GptStageOptions, 'layers' | 'wordEmbedding'> {
  /** The layers of each chunk, in the order of the model (see `cutLayers`). */
  readonly layers: readonly Slice[];
  /** The pipeline rank of each chunk: a schedule's placement. */
  readonly placement: readonly number[];
  /** This process's pipeline rank. */
  readonly rank: number;
}

/** A rank's pieces of a model. */
export interface GptStages {
  /** By number of the chunk: 0 holds the embeddings, the last the head. */
  readonly stages: ReadonlyMap<number, GptStage>;
  /** Of all stages, each once, in the order in which forward uses them. */
  readonly parameters: readonly Parameter[];
}

/**
 * Builds the chunks of a model that lie on one rank. A tied embedding whose first and last chunk lie here is one parameter;
 * on two ranks each has a copy, whose gradients are parts (axis pp).
 */
export function buildGptStages(options: BuildGptStagesOptions): GptStages {
  const { layers, placement, rank, ...common } = options;
  const { model, tensorParallel } = options;
  const isOnBothEnds = model.tieEmbeddings && placement[0] !== placement.at(-1);
  const holdsWords = placement[0] === rank || (model.tieEmbeddings && placement.at(-1) === rank);
  const wordEmbedding = holdsWords
    ? vocabularyTable({ model, tensorParallel, name: wordEmbeddingName, isOnBothEnds })
    : undefined;
  const stages = new Map<number, GptStage>();
  placement.forEach((holder, chunk) => {
    if (holder !== rank) return;
    stages.set(chunk, new GptStage({ ...common, layers: layers[chunk]!, wordEmbedding }));
  });
  const parameters = new Set([...stages.values()].flatMap((stage) => stage.parameters));
  return { stages, parameters: [...parameters] };
}
