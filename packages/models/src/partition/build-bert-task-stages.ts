import type { BertModelConfiguration } from '../bert/bert-model-configuration.js';
import type { BertTask } from '../bert/bert-task.js';
import { BertTaskStage } from '../bert/bert-task-stage.js';
import { type BuildStagesOptions, buildStages, type Stages } from './build-stages.js';

export interface BuildBertTaskStagesOptions extends BuildStagesOptions<BertModelConfiguration> {
  readonly task: BertTask;
}
export type BertTaskStages = Stages<BertTaskStage>;

/**
 * The chunks of a BERT for a fine-tuning task on one rank (see `buildStages`). No head is tied to
 * the embedding.
 */
export function buildBertTaskStages({ task, ...options }: BuildBertTaskStagesOptions): BertTaskStages {
  return buildStages(options, {
    isTied: false,
    newStage: (stage) => new BertTaskStage({ ...stage, task }),
  });
}
