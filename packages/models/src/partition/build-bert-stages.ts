import type { BertModelConfiguration } from '../bert/bert-model-configuration.js';
import { BertStage } from '../bert/bert-stage.js';
import { type BuildStagesOptions, buildStages, type Stages } from './build-stages.js';

export type BuildBertStagesOptions = BuildStagesOptions<BertModelConfiguration>;
export type BertStages = Stages<BertStage>;

/** The chunks of a BERT on one rank (see `buildStages`). */
export function buildBertStages(options: BuildBertStagesOptions): BertStages {
  return buildStages(options, { isTied: true, newStage: (stage) => new BertStage(stage) });
}
