import type { ModelKind } from '@mtl/configuration';
import { bertRecipe } from './bert-recipe.js';
import { gptRecipe } from './gpt-recipe.js';
import type { AnyModelRecipe } from './model-recipe.js';

const recipes: Readonly<Record<ModelKind, AnyModelRecipe>> = { gpt: gptRecipe, bert: bertRecipe };

/** How the model of a configuration is trained. */
export function recipeOf({ kind }: { readonly kind: ModelKind }): AnyModelRecipe {
  return recipes[kind];
}
