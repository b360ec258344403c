import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { GptStage } from '../gpt/gpt-stage.js';
import { type BuildStagesOptions, buildStages, type Stages } from './build-stages.js';

export type BuildGptStagesOptions = BuildStagesOptions<GptModelConfiguration>;
export type GptStages = Stages<GptStage>;

/** The chunks of a GPT on one rank (see `buildStages`). */
export function buildGptStages(options: BuildGptStagesOptions): GptStages {
  return buildStages(options, {
    isTied: options.model.tieEmbeddings,
    newStage: (stage) => new GptStage(stage),
  });
}
