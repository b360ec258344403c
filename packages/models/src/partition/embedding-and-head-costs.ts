import type { BertModelConfiguration, BertTask } from '../bert/bert-model.js';
import { flopsOfLayer, sumOfCosts } from '../blocks/matmul-cost.js';
import type { GptModelConfiguration } from '../gpt/gpt-model.js';
import { bertMatmuls, gptLayerMatmuls } from '../model-parameters.js';
import type { EmbeddingAndHeadCost } from './partition-layers.js';

/**
 * The cost of an embedding in layers. An embedding has no matmuls: lookups, their sum and dropout, and the
 * sum of gradients by token are some ten passes over S B H numbers, 40 H bytes per token. A layer takes 72
 * H^2 operations per token, forward and backward. If a byte takes as long as 16 operations (a core of a CPU),
 * that is 9 / H of a layer, 0.01 for GPT-2. `npm run dev -- head-costs` measured between -0.03 and 0.04 for
 * 768 to 2048, which is not distinguishable from zero, but enough to break ties in favour of stage 0.
 */
const embeddingCost = 0.01;

/**
 * Returns the cost of the embedding and the output head in layers, and the cost of each layer if some have
 * experts. The head's cost is its matmul, 2 V H per token. A layer on average takes two operations for each
 * of its weights and 4 S A D for attention: with GPT-2's blocks 8 H^2 + 4 H F + 4 S H. So the head costs 4.5
 * layers for 124 million parameters with 1024 tokens.
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

/**
 * Returns the cost of embedding and head in layers. Only masked tokens go through the head, a dense layer and
 * the decoder: 2 H^2 + 2 V H each, compared with the 8 H^2 + 4 H F + 4 S H a token of a layer.
 *
 * `sequenceLength` is S, `maskedShare` the share of masked tokens.
 */
export function bertEmbeddingAndHeadCost(
  model: BertModelConfiguration,
  { sequenceLength, maskedShare }: { readonly sequenceLength: number; readonly maskedShare: number },
): EmbeddingAndHeadCost {
  const { hiddenSize: H, vocabularySize: V } = model;
  const layer = flopsOfLayer(bertMatmuls(model), { numLayers: model.numLayers, sequenceLength });
  return { embedding: embeddingCost, head: (maskedShare * 2 * H * (H + V)) / layer };
}

/**
 * Returns the cost of embedding and head of a fine-tuning task in layers: a pooler of 2 H^2 for each row of S
 * tokens, or of spans 4 H for each token, compared with the 8 H^2 + 4 H F + 4 S H a token of a layer. It is
 * negligible.
 *
 * `sequenceLength` is S.
 */
export function bertTaskEmbeddingAndHeadCost(
  model: BertModelConfiguration,
  { sequenceLength: S, task }: { readonly sequenceLength: number; readonly task: BertTask },
): EmbeddingAndHeadCost {
  const { hiddenSize: H, numLayers } = model;
  const layer = flopsOfLayer(bertMatmuls(model), { numLayers, sequenceLength: S });
  return { embedding: embeddingCost, head: (task.kind === 'span' ? 4 * H : (2 * H * H) / S) / layer };
}
