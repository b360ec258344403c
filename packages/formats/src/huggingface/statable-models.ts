import { CheckpointError, ConfigurationError } from '@mtl/errors';
import {
  type BlockSpecification,
  type ExpertsSpecification,
  type GptModelConfiguration,
  gptBlocks,
  hasExperts,
  isRotatedLayer,
  type PositionVariants,
  type TransformerConfiguration,
  windowOfLayer,
  yarnConcentration,
} from '@mtl/models';
import { type KnownProperties, readConfigFields, writeConfigFields } from './config-fields.js';
import { JsonFields } from './json-fields.js';
import {
  type GptTypeName,
  listModelTypes,
  type ModelType,
  type ModelTypeName,
  modelTypes,
} from './model-types.js';

/**
 * Describes `model` by the fields of a model type, and returns the model that these fields describe. The
 * result differs from `model` if the model type lacks one of its features.
 *
 * @returns undefined if the model type does not support the model's values
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
    const written = alignLayers(model, alignWeights(model, alignGroups(model, known)));
    return withLayerLists(model, written) as unknown as Model;
  } catch (error) {
    if (error instanceof CheckpointError) return undefined;
    throw error;
  }
}

/**
 * Returns `stated` with its query groups in the notation of `model`. (If each query group has one head, the
 * model is the same as a model without query groups.)
 */
function alignGroups(model: object, stated: Readonly<Record<string, unknown>>): object {
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
 * Returns `stated` with YaRN's attention factor in the notation of `model`, if both have the same factor.
 * Models with the same computation thus become equal objects.
 */
function alignWeights(model: object, stated: object): object {
  const [own, other] = [model, stated] as [PositionVariants, PositionVariants];
  if ([own, other].some(({ positionEmbeddingType }) => positionEmbeddingType !== 'yarn')) return stated;
  if (yarnConcentration(own) !== yarnConcentration(other)) return stated;
  const { mscale: _, mscaleAllDim: __, yarnAttentionFactor: ___, ...others } = other;
  const { mscale, mscaleAllDim, yarnAttentionFactor } = own;
  return {
    ...others,
    ...(mscale === undefined ? {} : { mscale }),
    ...(mscaleAllDim === undefined ? {} : { mscaleAllDim }),
    ...(yarnAttentionFactor === undefined ? {} : { yarnAttentionFactor }),
  };
}

/**
 * Returns `stated` with its lists of layers in the notation of `model`, if both mean the same layers. One
 * list contains the layers with windows, the second list the layers without rotary positions.
 */
function withLayerLists(model: object, stated: object): object {
  const [own, other] = [model, stated] as [GptModelConfiguration, GptModelConfiguration];
  const layers = Array.from({ length: other.numLayers }, (_, layer) => layer);
  const lists = [
    ['windowAttnSkipFreq', windowOfLayer],
    ['noRopeFreq', isRotatedLayer],
  ] as const;
  const same = lists.filter(([, read]) => layers.every((layer) => read(own, layer) === read(other, layer)));
  const written = same.flatMap(([key]) => (own[key] === undefined ? [] : [[key, own[key]] as const]));
  return { ...stated, ...Object.fromEntries(written) };
}

/**
 * Returns `stated` with its list of expert layers in the notation of `model`. If there are no dense layers,
 * also copies the hidden size of dense layers, which is not used. Models with the same computation thus
 * become equal objects.
 */
function alignLayers(model: object, stated: object): object {
  const [own, other] = [model, stated] as [GptModelConfiguration, GptModelConfiguration];
  if (own.numExperts === undefined || own.numLayers !== other.numLayers) return stated;
  const layers = Array.from({ length: own.numLayers }, (_, layer) => layer);
  const isSparse = (one: GptModelConfiguration) => layers.map((layer) => hasExperts(one, layer));
  if (isSparse(own).join() !== isSparse(other).join()) return stated;
  const { moeLayerFreq: _, ...others } = other;
  const { moeLayerFreq, moeFfnHiddenSize, ffnHiddenSize } = own;
  const widthOfExperts = moeFfnHiddenSize ?? ffnHiddenSize;
  const isUnused =
    isSparse(own).every(Boolean) && (other.moeFfnHiddenSize ?? other.ffnHiddenSize) === widthOfExperts;
  return {
    ...others,
    ...(moeLayerFreq === undefined ? {} : { moeLayerFreq }),
    ...(isUnused ? { ffnHiddenSize } : {}),
    ...(isUnused && moeFfnHiddenSize !== undefined ? { moeFfnHiddenSize } : {}),
  };
}

/**
 * Returns the model type with which a GPT is written: the preferred type if it can describe the model, or
 * else the first type that can; undefined if no type can.
 */
export function chooseGptType(model: GptModelConfiguration, preferred?: string): GptTypeName | undefined {
  const types = listModelTypes('gpt') as readonly GptTypeName[];
  const wanted = describeComputation(model);
  const canState = (type: GptTypeName): boolean => {
    const stated = asStatedBy(type, model);
    return stated !== undefined && describeComputation(stated) === wanted;
  };
  const [first] = types.filter((type) => type === preferred).filter(canState);
  return first ?? types.find(canState);
}

/** Returns the model type that lacks the fewest of a GPT's properties, and the names of these properties. */
export function unstatedProperties(model: GptModelConfiguration): {
  readonly nearest: ModelType;
  readonly properties: readonly string[];
} {
  const wanted = describeComputation(model);
  const candidates = listModelTypes('gpt').flatMap((type) => {
    const stated = asStatedBy(type, model) as KnownProperties | undefined;
    const changes = Object.entries({ ...stated, ...model }).flatMap(([key, value]) => {
      const isOther = architectureOrNone({ ...model, [key]: stated?.[key] }) !== wanted;
      return isOther ? [`${key} ${key in model ? value : 'of a GPT-2'}`] : [];
    });
    return stated === undefined ? [] : [{ nearest: modelTypes[type] as ModelType, properties: changes }];
  });
  const [nearest] = candidates.toSorted((one, other) => one.properties.length - other.properties.length);
  return nearest ?? { nearest: modelTypes.gpt2, properties: [] };
}

/**
 * Returns a description of the model's computation; undefined if its properties contradict each other, for
 * example if the number of heads does not divide the hidden size.
 */
function architectureOrNone(model: GptModelConfiguration): string | undefined {
  try {
    return describeComputation(model);
  } catch (error) {
    if (error instanceof ConfigurationError) return undefined;
    throw error;
  }
}

/** Returns a string that describes a GPT's computation. Equal strings mean equal computations. */
function describeComputation(model: GptModelConfiguration): string {
  const { positionEmbeddingType = 'learned_absolute', tieEmbeddings, finalLogitSoftcapping } = model;
  const blocks = gptBlocks(model);
  const layers =
    typeof blocks === 'function'
      ? Array.from({ length: model.numLayers }, (_, layer) => computedBy(blocks(layer)))
      : [computedBy(blocks)];
  return JSON.stringify([positionEmbeddingType, tieEmbeddings, finalLogitSoftcapping, layers]);
}

/** Returns the properties that determine a block's computation, in a canonical notation. */
function computedBy(block: BlockSpecification): readonly unknown[] {
  const { initialization: _, hiddenDropout: __, attention, feedForward, ...others } = block;
  const { numHeads, numGroups = numHeads, bias, qkvBias = bias, dropout: ___, ...rest } = attention;
  const network =
    feedForward.kind === 'mixture-of-experts'
      ? computedByExperts(feedForward as ExpertsSpecification)
      : feedForward;
  return [others, network, numHeads, numGroups, bias, qkvBias, rest];
}

function computedByExperts(experts: ExpertsSpecification): readonly unknown[] {
  const { balancingLosses: _, zLossCoefficient: __, capacity: ___, router, ...others } = experts;
  const { expertBias, ...choice } = router;
  return [others, choice, expertBias !== undefined];
}
