import type { GptModelConfiguration } from '../../src/index.js';

/**
 * What a Llama has otherwise than the GPT of small-gpt.ts: eight heads in four groups, which are together
 * larger than the hidden size, and no biases but those of queries, keys and values.
 */
export const llamaVariants = {
  numAttentionHeads: 8,
  groupQueryAttention: true,
  numQueryGroups: 4,
  kvChannels: 6,
  positionEmbeddingType: 'none',
  addBiasLinear: false,
  addQkvBias: true,
  tieEmbeddings: false,
} as const satisfies Partial<GptModelConfiguration>;
