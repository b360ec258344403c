import { flopsOfLayer, sumOfCosts } from '../blocks/matmul-cost.js';
import { gptLayerMatmuls } from '../gpt/gpt-matmuls.js';
import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { embeddingCost } from './embedding-cost.js';
import type { EmbeddingAndHeadCost } from './partition-layers.js';

/**
 * The cost of embedding and output head in layers, and that of each layer where some have experts. The head's
 * is that of its matmul, 2 V H per token, where a layer on average takes two operations for each of its
 * weights and 4 S A D for attention: with GPT-2's blocks 8 H^2 + 4 H F + 4 S H, 4.5 for 124 million
 * parameters with 1024 tokens.
 *
 * @param sequenceLength S
 */
export function gptEmbeddingAndHeadCost(
  model: GptModelConfiguration,
  sequenceLength: number,
): EmbeddingAndHeadCost {
  const { hiddenSize: H, vocabularySize: V, numLayers } = model;
  const costs = gptLayerMatmuls(model);
  const layer = flopsOfLayer(sumOfCosts(costs), { numLayers, sequenceLength });
  const layers = costs.map((cost) => flopsOfLayer(cost, { numLayers: 1, sequenceLength }) / layer);
  const areAlike = costs.every(
    ({ weights, attentionFeatures }) =>
      weights === costs[0]!.weights && attentionFeatures === costs[0]!.attentionFeatures,
  );
  return { embedding: embeddingCost, head: (2 * V * H) / layer, ...(areAlike ? {} : { layers }) };
}
