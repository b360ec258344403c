import { sizeOf } from '@mtl/kernels';
import type { GptModelConfiguration } from './gpt-model-configuration.js';
import { gptParameters } from './gpt-parameters.js';

/** Trained parameters, the padded vocabulary included. */
export const numParameters = (model: GptModelConfiguration): number =>
  gptParameters(model).reduce(
    (sum, { globalShape, isBuffer }) => sum + (isBuffer ? 0 : sizeOf(globalShape)),
    0,
  );
