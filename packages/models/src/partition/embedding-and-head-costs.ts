import type { BertModelConfiguration, BertTask } from '../bert/bert-model.js';
import { flopsOfLayer, sumOfCosts } from '../blocks/matmul-cost.js';
import type { GptModelConfiguration } from '../gpt/gpt-model.js';
import { bertMatmuls, gptLayerMatmuls } from '../model-parameters.js';
import type { EmbeddingAndHeadCost } from './partition-layers.js';

/**
 * The cost of an embedding, in units of one layer's cost. An embedding has no matmuls. Lookups, their sum,
 * dropout and the sum of gradients by token are about ten passes over `S * B * H` values, which is `40 * H`
 * bytes per token. A layer takes `72 * H^2` operations per token, forward and backward. If a byte takes the
 * time of 16 operations (one CPU core), the ratio is 9 / H, or 0.01 for GPT-2. `npm run dev -- head-costs`
 * measured between -0.03 and 0.04 for H from 768 to 2048. These values are zero within the noise, but a value
 * above zero breaks ties in favour of stage 0.
 */
const embeddingCost = 0.01;

/**
 * Returns the cost of the embedding and the output head, in units of a layer's cost. For a model with experts
 * in some layers only, also returns the cost of each layer. The head's matmul takes `2 * V * H` operations
 * per token. An average layer takes two operations for each weight and `4 * S * A * D` for attention, which
 * is `8 * H^2 + 4 * H * F + 4 * S * H` with GPT-2's blocks. The head of GPT-2 with 124 million parameters and
 * 1024 tokens thus costs 4.5 layers.
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
 * Returns the cost of the embedding and the output head, in units of one layer's cost. Only masked tokens
 * pass through the head. It consists of a dense layer and the decoder and takes `2 * H^2 + 2 * V * H`
 * operations per token. A layer takes `8 * H^2 + 4 * H * F + 4 * S * H` operations per token.
 *
 * `sequenceLength` is S. `maskedShare` is the fraction of tokens that are masked.
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
 * Returns the cost of the embedding and the head for a fine-tuning task, in units of one layer's cost. A
 * pooler takes `2 * H^2` operations for each row of S tokens. The head for spans takes `4 * H` operations per
 * token. A layer takes `8 * H^2 + 4 * H * F + 4 * S * H` operations per token, so the cost is negligible.
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
