import { CheckpointError } from '@mtl/errors';
import type { TransformerConfiguration } from '../blocks/transformer-configuration.js';
import { gptBlock } from '../gpt/gpt-block.js';
import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { type KnownProperties, readConfigFields, writeConfigFields } from './config-fields.js';
import { JsonFields } from './json-fields.js';
import {
  type GptTypeName,
  type ModelType,
  type ModelTypeName,
  modelTypes,
  modelTypesOf,
} from './model-types.js';

/**
 * A model as a directory of a model type states it: what would be read of it after it was written. It is
 * another model where the type lacks something.
 *
 * @returns undefined where the type has no such sizes
 */
export function asStatedBy<Model extends TransformerConfiguration>(
  typeName: ModelTypeName,
  model: Model,
): Model | undefined {
  const { fields, fixed, inWeights }: ModelType = modelTypes[typeName];
  const kept = Object.entries(model).filter(
    ([key]) => key === 'makeVocabularySizeDivisibleBy' || inWeights.includes(key),
  );
  try {
    const read = readConfigFields(new JsonFields(typeName, writeConfigFields(model, fields)), fields);
    const stated = Object.entries({ ...Object.fromEntries(kept), ...fixed, ...read });
    const known = Object.fromEntries(stated.filter(([, value]) => value !== undefined));
    return withGroupsOf(model, known) as unknown as Model;
  } catch (error) {
    if (error instanceof CheckpointError) return undefined;
    throw error;
  }
}

/** Groups of one head each are no groups: both ways to say it are the same. */
function withGroupsOf(model: object, stated: Readonly<Record<string, unknown>>): object {
  const { groupQueryAttention, numQueryGroups } = model as Partial<GptModelConfiguration>;
  const isGrouped = groupQueryAttention === true && numQueryGroups !== stated.numAttentionHeads;
  if (isGrouped || stated.groupQueryAttention === true) return stated;
  return {
    ...stated,
    ...(groupQueryAttention === undefined ? {} : { groupQueryAttention }),
    ...(numQueryGroups === undefined ? {} : { numQueryGroups }),
  };
}

/**
 * The model type as which a GPT is written: the preferred one if it can state the model, else the first that
 * can.
 */
export function gptTypeOf(model: GptModelConfiguration, preferred?: string): GptTypeName | undefined {
  const types = modelTypesOf('gpt') as readonly GptTypeName[];
  const wanted = architectureOf(model);
  const canState = (type: GptTypeName): boolean => {
    const stated = asStatedBy(type, model);
    return stated !== undefined && architectureOf(stated) === wanted;
  };
  const [first] = types.filter((type) => type === preferred).filter(canState);
  return first ?? types.find(canState);
}

/** The properties of a GPT that no model type states, next to the type that lacks fewest of them. */
export function unstatedProperties(model: GptModelConfiguration): {
  readonly nearest: ModelType;
  readonly properties: readonly string[];
} {
  const wanted = architectureOf(model);
  const candidates = modelTypesOf('gpt').flatMap((type) => {
    const stated = asStatedBy(type, model) as KnownProperties | undefined;
    const changes = Object.entries({ ...stated, ...model }).flatMap(([key, value]) => {
      const isOther = architectureOf({ ...model, [key]: stated?.[key] }) !== wanted;
      return isOther ? [`${key} ${key in model ? value : 'of a GPT-2'}`] : [];
    });
    return stated === undefined ? [] : [{ nearest: modelTypes[type] as ModelType, properties: changes }];
  });
  const [nearest] = candidates.toSorted((one, other) => one.properties.length - other.properties.length);
  return nearest ?? { nearest: modelTypes.gpt2, properties: [] };
}

/** What a GPT computes with its weights, as text. */
function architectureOf(model: GptModelConfiguration): string {
  const { initialization: _, hiddenDropout: __, attention, ...block } = gptBlock(model);
  const { numHeads, numGroups = numHeads, bias, qkvBias = bias, dropout: ___, ...rest } = attention;
  const { positionEmbeddingType = 'learned_absolute', tieEmbeddings } = model;
  return JSON.stringify([
    positionEmbeddingType,
    tieEmbeddings,
    block,
    numHeads,
    numGroups,
    bias,
    qkvBias,
    rest,
  ]);
}
