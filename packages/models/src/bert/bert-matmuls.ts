import type { MatmulCost } from '../blocks/matmul-cost.js';
import type { BertModelConfiguration } from './bert-model-configuration.js';
import { BertStage } from './bert-stage.js';

/** What the matmuls of all layers of a model cost, asked of its blocks; its heads are not among them. */
export const bertMatmuls = (model: BertModelConfiguration): MatmulCost =>
  new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).matmuls;
