import type { Parameter } from '@mtl/autograd';
import type { MatmulCost } from '../blocks/matmul-cost.js';
import type { BertModelConfiguration, BertTask } from './bert-model.js';
import { BertStage } from './bert-stage.js';
import { BertTaskStage } from './bert-task-stage.js';

/** Returns all parameters of a model, without storage, which takes no memory. */
export const bertParameters = (model: BertModelConfiguration): readonly Parameter[] =>
  new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).parameters;

/** Returns the logical names of all parameters of a model, on whatever rank. */
export const bertParameterNames = (model: BertModelConfiguration): readonly string[] =>
  bertParameters(model).map(({ name }) => name);

/** Returns all parameters of a BERT for a task, on whatever rank: names and shapes of the complete model. */
export function bertTaskParameters(
  model: BertModelConfiguration,
  task: BertTask,
): readonly Pick<Parameter, 'name' | 'globalShape'>[] {
  // without storage a stage takes no memory
  return new BertTaskStage({ model, task, device: 'cpu', dtype: 'float32', seed: 0 }).parameters;
}

/** Returns the cost of the matmuls of all layers of a model, without its heads. */
export const bertMatmuls = (model: BertModelConfiguration): MatmulCost =>
  new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).matmuls;
