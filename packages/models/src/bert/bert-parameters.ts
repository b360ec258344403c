import type { Parameter } from '@mtl/autograd';
import type { BertModelConfiguration } from './bert-model-configuration.js';
import { BertStage } from './bert-stage.js';

/** All parameters of a model, without storage, which takes no memory. */
export const bertParameters = (model: BertModelConfiguration): readonly Parameter[] =>
  new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).parameters;
