import type { PretrainingConfiguration } from '@mtl/configuration';
import { paddedVocabularySize, type TransformerConfiguration } from '@mtl/models';
import type { ModelFlopsShape } from '@mtl/trainer';
import { numActiveAdapterParameters } from './lora-of.js';
import { recipeOf } from './recipe-of.js';

/** What the model FLOPs of one sample depend on, for a training run with the vocabulary of `model`. */
export function flopsShapeOf(
  configuration: PretrainingConfiguration,
  model: TransformerConfiguration,
): ModelFlopsShape {
  return {
    batchSize: 1,
    sequenceLength: configuration.model.sequenceLength,
    headWeights: paddedVocabularySize(model) * model.hiddenSize,
    numAdapterParameters: numActiveAdapterParameters(configuration, model),
    ...recipeOf(configuration).matmulsOf(configuration, model),
  };
}
