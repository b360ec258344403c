import { bertMatmuls } from '../bert/bert-matmuls.js';
import type { BertModelConfiguration } from '../bert/bert-model-configuration.js';
import { flopsOfLayer } from '../blocks/matmul-cost.js';
import { embeddingCost } from './embedding-cost.js';
import type { EmbeddingAndHeadCost } from './partition-layers.js';

/**
 * The cost of embedding and head in layers. Only masked tokens go through the head, a dense layer and the
 * decoder: 2 H^2 + 2 V H each, compared with the 8 H^2 + 4 H F + 4 S H a token of a layer.
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
