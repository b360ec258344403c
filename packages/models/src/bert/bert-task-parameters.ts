import type { Parameter } from '@mtl/autograd';
import type { BertModelConfiguration } from './bert-model-configuration.js';
import type { BertTask } from './bert-task.js';
import { BertTaskStage } from './bert-task-stage.js';

/** All parameters of a BERT for a task, on whatever rank: names and shapes of the complete model. */
export function bertTaskParameters(
  model: BertModelConfiguration,
  task: BertTask,
): readonly Pick<Parameter, 'name' | 'globalShape'>[] {
  // without storage a stage takes no memory
  return new BertTaskStage({ model, task, device: 'cpu', dtype: 'float32', seed: 0 }).parameters;
}
