import { type ConfigField, size, truth } from './config-fields.js';
import type { JsonFields } from './json-fields.js';

/**
 * Makes the field for the number of key-value heads. null means one key-value head for each query head. If
 * the field is missing, the value is `otherwise` (the transformers library's default for the model type); if
 * `otherwise` is not given, there is one key-value head for each query head.
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
 * Makes the field for the size of a head. The default is `otherwise`; if `otherwise` is not given, the
 * default is the hidden size divided by the number of heads. If `isRare` is true, the field is written only
 * if it differs from the default, as in Qwen2.
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

/** The head size, hidden size / number of heads, for model types whose config.json has no field for it. */
export const usualHeadSize: ConfigField = { ...headSize(), names: [] };

/** The field that states if queries, keys and values have biases. */
export const qkvBiases: ConfigField = {
  ...truth('addQkvBias', 'qkv_bias', true),
  write: (value) => value ?? false,
};

/** The field for the gated MLP (SwiGLU). */
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

/** The fields that state if a Llama has biases. Either all linear layers have biases, or none has any. */
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

/**
 * The field that states if a Qwen3 or an OLMoE has attention biases. Models with such biases are not
 * supported.
 */
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
