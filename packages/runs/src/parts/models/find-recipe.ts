import type { CheckpointConfiguration, ModelKind, PretrainingConfiguration } from '@mtl/configuration';
import { paddedVocabularySize, type TransformerConfiguration } from '@mtl/models';
import type { ModelFlopsShape } from '@mtl/trainer';
import { bertRecipe } from './bert-recipe.js';
import { gptRecipe } from './gpt-recipe.js';
import type { AnyModelRecipe } from './model-recipe.js';

const recipes: Readonly<Record<ModelKind, AnyModelRecipe>> = { gpt: gptRecipe, bert: bertRecipe };

/** Returns the recipe for the configuration's kind of model. */
export function findRecipe({ kind }: { readonly kind: ModelKind }): AnyModelRecipe {
  return recipes[kind];
}

/**
 * Returns the conversion that turns a dense model into the run's mixture of experts; undefined if the run
 * converts none.
 */
export const findUpcycling = ({
  kind,
  checkpoint,
}: Pick<PretrainingConfiguration, 'kind'> & {
  readonly checkpoint: Pick<CheckpointConfiguration, 'upcycle'>;
}): AnyModelRecipe['upcycling'] => (checkpoint.upcycle === true ? findRecipe({ kind }).upcycling : undefined);

/**
 * Returns the sizes that determine the model FLOPs of a sample. The vocabulary size is taken from `model`.
 */
export function describeFlopsShape(
  configuration: PretrainingConfiguration,
  model: TransformerConfiguration,
): ModelFlopsShape {
  const recipe = findRecipe(configuration);
  return {
    batchSize: 1,
    sequenceLength: configuration.model.sequenceLength,
    headWeights: paddedVocabularySize(model) * model.hiddenSize,
    numAdapterParameters: recipe.adapters.numActiveParameters(configuration, model),
    ...recipe.describeMatmuls(configuration, model),
  };
}
