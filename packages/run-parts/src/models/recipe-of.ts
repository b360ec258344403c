import type { ModelKind, PretrainingConfiguration } from '@mtl/configuration';
import { paddedVocabularySize, type TransformerConfiguration } from '@mtl/models';
import type { ModelFlopsShape } from '@mtl/trainer';
import { bertRecipe } from './bert-recipe.js';
import { gptRecipe } from './gpt-recipe.js';
import { numActiveAdapterParameters } from './lora-of.js';
import type { AnyModelRecipe } from './model-recipe.js';

const recipes: Readonly<Record<ModelKind, AnyModelRecipe>> = { gpt: gptRecipe, bert: bertRecipe };

/** Returns the recipe by which the model of a configuration is trained. */
export function recipeOf({ kind }: { readonly kind: ModelKind }): AnyModelRecipe {
  return recipes[kind];
}

/** Returns the sizes that the model FLOPs of one sample depend on, with the vocabulary of `model`. */
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
