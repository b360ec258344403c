import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { embeddingCost } from './embedding-cost.js';
import type { EmbeddingAndHeadCost } from './partition-layers.js';

/**
 * The cost of embedding and output head in layers. The head's is that of its matmul, 2 V H per token, where
 * a layer takes 8 H^2 + 4 H F + 4 S H: 4.5 for GPT-2 of 124 million parameters with 1024 tokens.
 *
 * @param sequenceLength S
 */
export function gptEmbeddingAndHeadCost(
  { hiddenSize: H, ffnHiddenSize: F, vocabularySize: V }: GptModelConfiguration,
  sequenceLength: number,
): EmbeddingAndHeadCost {
  const layer = 8 * H * H + 4 * H * F + 4 * sequenceLength * H;
  return { embedding: embeddingCost, head: (2 * V * H) / layer };
}
