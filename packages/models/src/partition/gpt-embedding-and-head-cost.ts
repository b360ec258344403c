import { flopsOfLayer } from '../blocks/matmul-cost.js';
import { gptMatmuls } from '../gpt/gpt-matmuls.js';
import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { embeddingCost } from './embedding-cost.js';
import type { EmbeddingAndHeadCost } from './partition-layers.js';

/**
 * The cost of embedding and output head in layers. The head's is that of its matmul, 2 V H per token, where
 * a layer on average takes two operations for each of its weights and 4 S A D for attention: with GPT-2's
 * blocks 8 H^2 + 4 H F + 4 S H, 4.5 for 124 million parameters with 1024 tokens.
 *
 * @param sequenceLength S
 */
export function gptEmbeddingAndHeadCost(
  model: GptModelConfiguration,
  sequenceLength: number,
): EmbeddingAndHeadCost {
  const { hiddenSize: H, vocabularySize: V, numLayers } = model;
  const layer = flopsOfLayer(gptMatmuls(model), { numLayers, sequenceLength });
  return { embedding: embeddingCost, head: (2 * V * H) / layer };
}
