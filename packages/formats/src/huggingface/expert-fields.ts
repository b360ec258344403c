import { hasExperts } from '@mtl/models';
import { type ConfigField, size, truth } from './config-fields.js';
import type { JsonFields } from './json-fields.js';
import { checkNumLayers } from './layer-count.js';

/**
 * Makes the field for the number of experts in a layer. transformers 5 writes either name. Earlier versions
 * write the name `written`, which depends on the model type.
 */
const numExperts = (written: 'num_experts' | 'num_local_experts'): ConfigField => {
  const other = written === 'num_experts' ? 'num_local_experts' : 'num_experts';
  return { ...size('numExperts', [written, other]), hasSpellings: true };
};

/**
 * Makes the field for the number of experts to which each token is sent. `otherwise` is the transformers
 * library's default.
 */
const chosenExperts = (otherwise: number): ConfigField => ({
  ...size('moeRouterTopk', ['num_experts_per_tok'], () => otherwise),
  check: (value, { numExperts: most }) =>
    (value as number) <= (most as number) ? undefined : `at most ${most as number}, of that many experts`,
  write: (value) => value ?? 2,
});

/**
 * The field `norm_topk_prob`. If it is true, the weights of a token's chosen experts are normalized to a sum
 * of 1. This project's models express this as a softmax over only the chosen experts.
 */
const normalizedWeights: ConfigField = {
  ...truth('moeRouterPreSoftmax', 'norm_topk_prob', false),
  read: (fields) => !fields.optional('norm_topk_prob', 'true or false', false),
  write: (value) => !((value as boolean | undefined) ?? false),
};

/** The hidden size of an expert's MLP, in models without dense layers. */
export const widthOfExperts: ConfigField = {
  ...size('ffnHiddenSize', ['intermediate_size']),
  write: (value, { moeFfnHiddenSize }) => moeFfnHiddenSize ?? value,
};

/** Experts of a Mixtral, in all layers. */
export const mixtralExperts: readonly ConfigField[] = [numExperts('num_local_experts'), chosenExperts(2)];

/** Experts of an OLMoE, in all layers. */
export const olmoeExperts: readonly ConfigField[] = [
  numExperts('num_experts'),
  chosenExperts(8),
  normalizedWeights,
];

/**
 * The field that states which layers of a Qwen have experts: every Nth layer, counted from 1, except layers
 * in `mlp_only_layers`.
 */
const layersWithExperts: ConfigField = {
  key: 'moeLayerFreq',
  names: ['decoder_sparse_step', 'mlp_only_layers'],
  read: (fields, known) => {
    const numLayers = known.numLayers as number;
    const step = fields.optional('decoder_sparse_step', 'a positive integer', 1);
    const dense = new Set(denseLayers(fields).filter((layer) => layer < numLayers));
    if (step === 1 && dense.size === 0) return undefined;
    checkNumLayers(fields, known);
    const layers = Array.from({ length: numLayers }, (_, layer): number =>
      (layer + 1) % step === 0 && !dense.has(layer) ? 1 : 0,
    );
    return findFrequency(layers) ?? layers;
  },
  check: (value) =>
    Array.isArray(value) && !value.includes(1) ? 'experts in one of the layers at least' : undefined,
  write: (_, model) => findSparseStep(expertsOfLayers(model)) ?? 1,
  writeOthers: (_, model) => {
    const layers = expertsOfLayers(model);
    const listed = findSparseStep(layers) === undefined;
    return { mlp_only_layers: listed ? layers.flatMap((has, layer) => (has ? [] : [layer])) : [] };
  },
};

function denseLayers(fields: JsonFields): readonly number[] {
  const listed = fields.values.mlp_only_layers ?? [];
  const isLayer = (layer: unknown): boolean => Number.isSafeInteger(layer) && (layer as number) >= 0;
  if (Array.isArray(listed) && listed.every(isLayer)) return listed as number[];
  throw fields.refuse('mlp_only_layers', 'a list of layers, counted from 0');
}

/**
 * Returns N if exactly every Nth layer has experts, beginning with the first layer, as in `moeLayerFreq`;
 * otherwise undefined.
 */
function findFrequency(layers: readonly number[]): number | undefined {
  const second = layers.indexOf(1, 1);
  const frequency = second < 0 ? layers.length : second;
  return layers.every((has, layer) => has === (layer % frequency === 0 ? 1 : 0)) ? frequency : undefined;
}

const expertsOfLayers = (model: Readonly<Record<string, unknown>>): readonly boolean[] =>
  Array.from({ length: model.numLayers as number }, (_, layer) => hasExperts(model, layer));

/** Returns N if exactly every Nth layer has experts, beginning with layer N; otherwise undefined. */
function findSparseStep(layers: readonly boolean[]): number | undefined {
  const step = layers.indexOf(true) + 1;
  return step > 0 && layers.every((has, layer) => has === ((layer + 1) % step === 0)) ? step : undefined;
}

/**
 * Makes the fields for a Qwen's experts and dense layers, whose hidden sizes may differ. `perToken` is the
 * default number of experts per token.
 */
const qwenExpertsWith = (perToken: number): readonly ConfigField[] => [
  numExperts('num_experts'),
  chosenExperts(perToken),
  normalizedWeights,
  {
    ...size('moeFfnHiddenSize', ['moe_intermediate_size']),
    write: (value, { ffnHiddenSize }) => value ?? ffnHiddenSize,
  },
  layersWithExperts,
];

/** Fields of a Qwen3-MoE's experts. */
export const qwenExperts = qwenExpertsWith(8);

/** The expert fields of a Qwen2-MoE, which also has shared experts. */
export const qwen2Experts: readonly ConfigField[] = [
  ...qwenExpertsWith(4),
  size('moeSharedExpertIntermediateSize', ['shared_expert_intermediate_size']),
];
