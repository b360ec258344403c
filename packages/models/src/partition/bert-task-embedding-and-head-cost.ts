import type { BertModelConfiguration } from '../bert/bert-model-configuration.js';
import type { BertTask } from '../bert/bert-task.js';
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
  { hiddenSize: H, ffnHiddenSize: F }: BertModelConfiguration,
  { sequenceLength: S, task }: { readonly sequenceLength: number; readonly task: BertTask },
): EmbeddingAndHeadCost {
  const layer = 8 * H * H + 4 * H * F + 4 * S * H;
  return { embedding: embeddingCost, head: (task.kind === 'span' ? 4 * H : (2 * H * H) / S) / layer };
}
