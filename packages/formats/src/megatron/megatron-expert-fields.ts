import { type ExpertVariants, hasExperts } from '@mtl/models';
import {
  type ConfigField,
  checkedNumber,
  type KnownProperties,
  size,
  truth,
} from '../huggingface/config-fields.js';
import type { JsonFields } from '../huggingface/json-fields.js';

const positive = checkedNumber({ isValid: (value) => value > 0, expected: 'a number above 0' });

/** Restricts a field to models with experts. It has no value in models without experts. */
const ofExperts = (field: ConfigField): ConfigField => ({
  ...field,
  read: (fields, known) => {
    const [name = ''] = field.names;
    const isStated = known.numExperts !== undefined && (fields.values[name] ?? null) !== null;
    return isStated ? field.read(fields, known) : undefined;
  },
  check: (value, known) => (value === undefined ? undefined : field.check?.(value, known)),
  write: (value, model) => {
    if (model.numExperts === undefined) return undefined;
    return field.write === undefined ? value : field.write(value, model);
  },
});

/**
 * Makes the field for a property whose value is one of `words`. If the args lack the field, its value is the
 * first word.
 */
const word = (key: string, name: string, words: readonly [string, ...string[]]): ConfigField =>
  ofExperts({
    key,
    names: [name],
    read: (fields) => {
      const value = fields.required<string>(name, 'a string');
      if (words.includes(value)) return value;
      throw fields.unsupported(name, { needs: 'that', expected: words.join(', ') });
    },
    write: (value) => value ?? words[0],
  });

const count = (key: string, name: string): ConfigField => ofExperts(size(key, [name]));

const flag = (key: string, name: string): ConfigField =>
  ofExperts({ ...truth(key, name, false), write: (value) => value ?? false });

const numExperts: ConfigField = {
  key: 'numExperts',
  names: ['num_experts'],
  // 0 means no value
  read: (fields) =>
    (fields.values.num_experts ?? 0) === 0 ? undefined : fields.required('num_experts', 'a positive integer'),
};

const isLayer = (layer: unknown): boolean => layer === 0 || layer === 1;

/**
 * The field that states which layers have experts: every Nth layer beginning with the first, or a list with 0
 * or 1 for each layer.
 */
const moeLayerFreq: ConfigField = ofExperts({
  key: 'moeLayerFreq',
  names: ['moe_layer_freq'],
  read: (fields, { numLayers }) => {
    const value = fields.values.moe_layer_freq;
    if (Number.isSafeInteger(value) && (value as number) > 0) return value === 1 ? undefined : value;
    if (Array.isArray(value) && value.length === numLayers && value.every(isLayer)) return value as number[];
    throw fields.refuse(
      'moe_layer_freq',
      `a positive integer, or 0 or 1 for each of ${numLayers as number} layers`,
    );
  },
  write: (_, model) => layersWithExperts(model),
});

/**
 * Returns which layers have experts, in Megatron-LM's notation: 1 if all layers have experts, else a list
 * with 0 or 1 for each layer.
 */
export function layersWithExperts(model: KnownProperties | ExpertVariants): 1 | readonly number[] {
  const { numLayers } = model as { readonly numLayers: number };
  const layers = Array.from({ length: numLayers }, (_, layer) => (hasExperts(model, layer) ? 1 : 0));
  return layers.includes(0) ? layers : 1;
}

const balancingTypes = ['aux_loss', 'seq_aux_loss', 'global_aux_loss', 'none'];

/**
 * The field for the kind of load balancing: a word or a list of words. Some words, such as sinkhorn, select a
 * different routing algorithm, which is not supported.
 */
const loadBalancing: ConfigField = ofExperts({
  key: 'moeRouterLoadBalancingType',
  names: ['moe_router_load_balancing_type'],
  read: (fields) => {
    const value = [fields.values.moe_router_load_balancing_type].flat();
    if (value.every((type) => balancingTypes.includes(type as string))) return value;
    throw fields.unsupported('moe_router_load_balancing_type', {
      needs: 'that routing',
      expected: balancingTypes.join(', '),
    });
  },
  write: (value) => {
    const types = (value ?? ['aux_loss']) as readonly string[];
    return types.length === 1 ? types[0] : types;
  },
});

const coefficients: ConfigField = ofExperts({
  key: 'moeAuxLossCoeff',
  names: ['moe_aux_loss_coeff'],
  read: (fields) => readNumbers(fields, 'moe_aux_loss_coeff'),
  write: (value) => {
    const numbers = (value ?? [0]) as readonly number[];
    return numbers.length === 1 ? numbers[0] : numbers;
  },
});

function readNumbers(fields: JsonFields, name: string): readonly number[] {
  const values = [fields.values[name]].flat();
  if (values.every((value) => typeof value === 'number' && value >= 0)) return values as number[];
  throw fields.refuse(name, 'a number, 0 or more, or a list of such numbers');
}

/** The fields in Megatron-LM's args that describe a model's mixture of experts. */
export const expertFields: readonly ConfigField[] = [
  numExperts,
  moeLayerFreq,
  ofExperts({
    ...size('moeFfnHiddenSize', ['moe_ffn_hidden_size']),
    write: (value, { ffnHiddenSize }) => value ?? ffnHiddenSize,
  }),
  ofExperts({ ...size('moeRouterTopk', ['moe_router_topk']), write: (value) => value ?? 2 }),
  word('moeRouterScoreFunction', 'moe_router_score_function', ['softmax', 'sigmoid', 'sqrtsoftplus']),
  flag('moeRouterPreSoftmax', 'moe_router_pre_softmax'),
  ofExperts({
    ...positive('moeRouterTopkScalingFactor', 'moe_router_topk_scaling_factor', 1),
    // 0 means no value
    read: (fields) => fields.required<number>('moe_router_topk_scaling_factor', 'a number') || undefined,
  }),
  count('moeRouterNumGroups', 'moe_router_num_groups'),
  count('moeRouterGroupTopk', 'moe_router_group_topk'),
  flag('moeRouterEnableExpertBias', 'moe_router_enable_expert_bias'),
  ofExperts({
    key: 'moeRouterBiasUpdateRate',
    names: ['moe_router_bias_update_rate'],
    read: (fields) => fields.required('moe_router_bias_update_rate', 'a number'),
    write: (value) => value ?? 1e-3,
  }),
  loadBalancing,
  coefficients,
  ofExperts({
    key: 'moeZLossCoeff',
    names: ['moe_z_loss_coeff'],
    read: (fields) => fields.required<number>('moe_z_loss_coeff', 'a number') || undefined,
  }),
  count('moeSharedExpertIntermediateSize', 'moe_shared_expert_intermediate_size'),
  flag('moeSharedExpertGate', 'moe_shared_expert_gate'),
  ofExperts({
    key: 'moeExpertCapacityFactor',
    names: ['moe_expert_capacity_factor'],
    read: (fields) => {
      const factor = fields.required<number>('moe_expert_capacity_factor', 'a number');
      return factor > 0 ? factor : undefined;
    },
  }),
  word('moeTokenDropPolicy', 'moe_token_drop_policy', ['probs', 'position']),
];
