import type { GptModelConfiguration } from '@mtl/models';

/**
 * The differences between a Llama and the GPT of small-gpt.ts: RMSNorm, SwiGLU, rotary positions for a part
 * of each head, and eight heads in four groups, which are together larger than the hidden size. Only queries,
 * keys and values have biases, as in Qwen2.
 */
export const llamaVariants = {
  numAttentionHeads: 8,
  groupQueryAttention: true,
  numQueryGroups: 4,
  kvChannels: 6,
  ffnHiddenSize: 40,
  positionEmbeddingType: 'rope',
  rotaryPercent: 0.7,
  normalization: 'RMSNorm',
  swiglu: true,
  addBiasLinear: false,
  addQkvBias: true,
  tieEmbeddings: false,
} as const satisfies Partial<GptModelConfiguration>;

/**
 * The variants of a Llama with other kinds: norms of queries and keys, squared ReLU, interleaved pairs,
 * scaled frequencies.
 */
export const otherVariants = {
  ...llamaVariants,
  swiglu: false,
  squaredRelu: true,
  qkLayernorm: true,
  addQkvBias: false,
  rotaryPercent: 1,
  rotaryInterleaved: true,
  useRopeScaling: true,
  windowSize: '2,0',
} as const satisfies Partial<GptModelConfiguration>;

/** Soft caps among the scores and the logits of a small model. */
export const softCaps = {
  ...llamaVariants,
  attnLogitSoftcapping: 0.4,
  finalLogitSoftcapping: 1.5,
} as const satisfies Partial<GptModelConfiguration>;

/** The variants of a Llama with one norm of the queries of all heads, and one of the keys. */
export const normOfAllHeads = {
  ...llamaVariants,
  qkLayernorm: true,
  qkNormWholeWidth: true,
} as const satisfies Partial<GptModelConfiguration>;

/**
 * The blocks of GPT-2 with groups, a separate head size, and layer norm of queries and keys before rotation.
 */
export const layerNormOfHeads = {
  ...llamaVariants,
  normalization: 'LayerNorm',
  qkLayernorm: true,
} as const satisfies Partial<GptModelConfiguration>;
