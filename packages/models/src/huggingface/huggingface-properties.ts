import { type ModelType, type ModelTypeName, modelTypes } from './model-types.js';

/** What the directories of a model type of the transformers library say about the models in them. */
export interface HuggingFaceProperties {
  /** The keys of properties that a directory states. */
  readonly stated: ReadonlySet<string>;
  /** The values of properties that all models of the type have. */
  readonly fixed: Readonly<Record<string, unknown>>;
}

/** What a directory of a model type states, by the keys of our configuration of a model. */
export function huggingFaceProperties(type: ModelTypeName): HuggingFaceProperties {
  const { fields, inWeights, fixed }: ModelType = modelTypes[type];
  return { stated: new Set([...fields.map(({ key }) => key), ...inWeights]), fixed };
}
