import { bertMatmuls } from '../bert/bert-matmuls.js';
import type { BertModelConfiguration } from '../bert/bert-model-configuration.js';
import type { BertTask } from '../bert/bert-task.js';
import { flopsOfLayer } from '../blocks/matmul-cost.js';
import { embeddingCost } from './embedding-cost.js';
import type { EmbeddingAndHeadCost } from './partition-layers.js';

/**
 * The cost of embedding and head of a fine-tuning task in layers: a pooler of 2 H^2 for each row of S tokens,
 * or of spans 4 H for each token, compared with the 8 H^2 + 4 H F + 4 S H a token of a layer. It is
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
