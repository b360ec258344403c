import { type ConfigField, size, truth } from './config-fields.js';
import type { JsonFields } from './json-fields.js';

/**
 * Makes the field for the number of key-value heads. null means one per query head. A missing field means
 * `otherwise`, the default of the model type in transformers, or one per query head without that default.
 */
export const keyValueHeads = ({
  otherwise,
}: {
  readonly otherwise?: number;
} = {}): readonly ConfigField[] => [
  {
    key: 'numQueryGroups',
    names: ['num_key_value_heads'],
    read: (fields, { numAttentionHeads }) => {
      const isNull = fields.values.num_key_value_heads === null;
      const missing = (isNull ? undefined : otherwise) ?? (numAttentionHeads as number);
      return size('', ['num_key_value_heads'], () => missing).read(fields, {});
    },
    check: (value, { numAttentionHeads }) =>
      (numAttentionHeads as number) % (value as number) === 0
        ? undefined
        : `a divisor of ${numAttentionHeads as number}`,
    write: (groups, { groupQueryAttention, numAttentionHeads }) =>
      groupQueryAttention === true ? (groups ?? 1) : numAttentionHeads,
  },
  {
    key: 'groupQueryAttention',
    names: [],
    read: (_, { numQueryGroups, numAttentionHeads }) => numQueryGroups !== numAttentionHeads,
  },
];

/**
 * Makes the field of the size of a head. Without a default, it is hidden size / heads. A Qwen2 states its
 * head size only if it differs from that.
 */
export const headSize = ({ otherwise, isRare }: { otherwise?: number; isRare?: true } = {}): ConfigField => ({
  key: 'kvChannels',
  names: ['head_dim'],
  read: (fields, { hiddenSize, numAttentionHeads }) => {
    const [hidden, heads] = [hiddenSize as number, numAttentionHeads as number];
    const size = fields.optional('head_dim', 'a positive integer', otherwise ?? hidden / heads);
    if (!Number.isInteger(size)) throw fields.refuse('num_attention_heads', `a divisor of ${hidden}`);
    return size;
  },
  check: (value) => ((value as number) % 2 === 0 ? undefined : 'an even number, as rotary positions need'),
  write: (value, { hiddenSize, numAttentionHeads }) => {
    const usual = (hiddenSize as number) / (numAttentionHeads as number);
    return isRare && (value ?? usual) === usual ? undefined : (value ?? usual);
  },
});

/** The size of heads that are together as wide as the hidden states; config.json does not state it. */
export const usualHeadSize: ConfigField = { ...headSize(), names: [] };

/** Biases of queries, keys and values. */
export const qkvBiases: ConfigField = {
  ...truth('addQkvBias', 'qkv_bias', true),
  write: (value) => value ?? false,
};

/** The gated feed-forward network. */
export const gatedActivation: ConfigField = {
  key: 'swiglu',
  names: ['hidden_act'],
  read: (fields) => {
    const activation = fields.optional('hidden_act', 'a string', 'silu');
    if (activation === 'silu' || activation === 'swish') return true;
    throw fields.unsupported('hidden_act', {
      needs: 'that activation in gated feed-forward layers',
      expected: 'silu',
    });
  },
  write: () => 'silu',
};

/** Biases of a Llama: in all linear layers, or in none. */
export const llamaBiases: ConfigField = {
  key: 'addBiasLinear',
  names: ['attention_bias', 'mlp_bias'],
  read: (fields) => {
    const [attention, feedForward] = ['attention_bias', 'mlp_bias'].map((name) => isTrue(fields, name));
    if (attention === feedForward) return attention;
    throw fields.unsupported(attention ? 'attention_bias' : 'mlp_bias', {
      needs: `biases in ${attention ? 'attention' : 'feed-forward layers'} only`,
      expected: 'attention_bias and mlp_bias both true or both false',
    });
  },
  write: (value) => value ?? true,
  writeOthers: (value) => ({ mlp_bias: value ?? true }),
};

/** The biases of attention in a Qwen3 or an OLMoE, which must have none. */
export const noAttentionBiases: ConfigField = {
  key: 'addBiasLinear',
  names: ['attention_bias'],
  read: (fields) => {
    if (!isTrue(fields, 'attention_bias')) return false;
    throw fields.unsupported('attention_bias', { needs: 'biases in attention only', expected: 'false' });
  },
  write: () => false,
};

const isTrue = (fields: JsonFields, name: string): boolean => fields.optional(name, 'true or false', false);

// transformers counts a query's own position, `windowSize` does not
const windowOf = (size: number): string => `${size - 1},0`;
const sizeOf = (window: unknown): number | null =>
  typeof window === 'string' ? Number.parseInt(window, 10) + 1 : null;

/** The window of all layers of a Mistral: 4096 if the field is missing, no window if it is null. */
export const mistralWindow: ConfigField = {
  key: 'windowSize',
  names: ['sliding_window'],
  read: (fields) => {
    if (fields.values.sliding_window === null) return undefined;
    return windowOf(fields.optional('sliding_window', 'a positive integer', 4096));
  },
  write: sizeOf,
};

/** The window of all layers of a Mixtral: no window if the field is missing. */
export const mixtralWindow: ConfigField = {
  ...mistralWindow,
  read: (fields) => usedWindow(fields, 'sliding_window'),
};

/** The window of all layers of a Qwen3-MoE. */
export const qwen3MoeWindow: ConfigField = {
  key: 'windowSize',
  // `max_window_layers` has no effect here
  names: ['sliding_window', 'use_sliding_window', 'max_window_layers'],
  read: (fields) => {
    const isUsed = fields.optional('use_sliding_window', 'true or false', false);
    return isUsed ? usedWindow(fields, 'sliding_window') : undefined;
  },
  write: sizeOf,
  writeOthers: (window) => ({ use_sliding_window: window !== undefined }),
};

function usedWindow(fields: JsonFields, name: string): string | undefined {
  const size = fields.optional<number | undefined>(name, 'a positive integer', undefined);
  return size === undefined ? undefined : windowOf(size);
}

type LayerType = 'full_attention' | 'sliding_attention';

/** The window of a Qwen. Either all of its layers have the window, or none has one. */
export const qwenWindow: ConfigField = {
  key: 'windowSize',
  names: ['sliding_window', 'use_sliding_window', 'max_window_layers', 'layer_types'],
  read: (fields, { numLayers }) => {
    const isUsed = fields.optional('use_sliding_window', 'true or false', false);
    const size = isUsed ? fields.optional<number | null>('sliding_window', 'a positive integer', null) : null;
    const types = layerTypes(fields, { numLayers: numLayers as number, hasWindow: size !== null });
    const isSliding = types.map((type) => type === 'sliding_attention');
    if (isSliding.includes(true) && (isSliding.includes(false) || size === null)) {
      const name = fields.values.layer_types == null ? 'max_window_layers' : 'layer_types';
      const needs = size === null ? 'a window that it does not have' : 'a window in some of its layers only';
      throw fields.unsupported(name, { needs, expected: 'all layers with a window, or none' });
    }
    return size !== null && isSliding.includes(true) ? windowOf(size) : undefined;
  },
  write: sizeOf,
  writeOthers: (window, { numLayers }) => {
    const type: LayerType = window === undefined ? 'full_attention' : 'sliding_attention';
    return {
      use_sliding_window: window !== undefined,
      // without a window, `max_window_layers` has no effect
      max_window_layers: window === undefined ? undefined : 0,
      layer_types: Array.from({ length: numLayers as number }, () => type),
    };
  },
};

/**
 * The window of a Qwen2-MoE. Layers with a window alternate with layers without one, so only a list of layer
 * types can give it to all layers.
 */
export const qwen2MoeWindow: ConfigField = {
  ...qwenWindow,
  read: (fields, known) => {
    const isUsed = fields.optional('use_sliding_window', 'true or false', false);
    if (isUsed && fields.values.layer_types == null) {
      throw fields.unsupported('use_sliding_window', {
        needs: 'a window in every other layer',
        expected: 'false, or layer_types with all layers alike',
      });
    }
    return isUsed ? qwenWindow.read(fields, known) : undefined;
  },
  // 0 means that there is no window
  write: (window) => sizeOf(window) ?? 0,
};

/** Returns the types of the layers: the listed ones, or windows from layer `max_window_layers` on. */
function layerTypes(
  fields: JsonFields,
  { numLayers, hasWindow }: { readonly numLayers: number; readonly hasWindow: boolean },
): readonly LayerType[] {
  const listed = fields.values.layer_types ?? undefined;
  if (listed === undefined) {
    const first = fields.values.max_window_layers ?? 28;
    if (!Number.isSafeInteger(first)) throw fields.refuse('max_window_layers', 'an integer');
    // each type once: the number of layers has not been checked yet, so a list of all layers might be too
    // long
    return [
      ...(hasWindow && (first as number) < numLayers ? (['sliding_attention'] as const) : []),
      ...(!hasWindow || (first as number) > 0 ? (['full_attention'] as const) : []),
    ];
  }
  const isKnown = (type: unknown) => type === 'full_attention' || type === 'sliding_attention';
  if (Array.isArray(listed) && listed.length === numLayers && listed.every(isKnown)) return listed;
  throw fields.refuse('layer_types', `full_attention or sliding_attention for each of ${numLayers} layers`);
}
