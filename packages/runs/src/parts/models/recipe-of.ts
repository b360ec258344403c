import type { CheckpointConfiguration, ModelKind, PretrainingConfiguration } from '@mtl/configuration';
import { paddedVocabularySize, type TransformerConfiguration } from '@mtl/models';
import type { ModelFlopsShape } from '@mtl/trainer';
import { bertRecipe } from './bert-recipe.js';
import { gptRecipe } from './gpt-recipe.js';
import type { AnyModelRecipe } from './model-recipe.js';

const recipes: Readonly<Record<ModelKind, AnyModelRecipe>> = { gpt: gptRecipe, bert: bertRecipe };

/** Returns the recipe by which the model of a configuration is trained. */
export function findRecipe({ kind }: { readonly kind: ModelKind }): AnyModelRecipe {
  return recipes[kind];
}

/** Returns the way in which a run makes experts from a dense model; undefined if it does not. */
export const findUpcycling = ({
  kind,
  checkpoint,
}: Pick<PretrainingConfiguration, 'kind'> & {
  readonly checkpoint: Pick<CheckpointConfiguration, 'upcycle'>;
}): AnyModelRecipe['upcycling'] => (checkpoint.upcycle === true ? findRecipe({ kind }).upcycling : undefined);

/** Returns the sizes that the model FLOPs of one sample depend on, with the vocabulary of `model`. */
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
