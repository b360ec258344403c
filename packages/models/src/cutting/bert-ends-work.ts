import type { BertModelConfiguration } from '../bert/bert-model-configuration.js';
import type { EndsWork } from './cut-layers.js';
import { embeddingWork } from './embedding-work.js';

/**
 * The work of embedding and head in layers. Only masked tokens go through the head, a dense layer and the
 * decoder: 2 H^2 + 2 V H each, beside the 8 H^2 + 4 H F + 4 S H a token of a layer.
 *
 * `sequenceLength` is S, `maskedShare` the share of masked tokens.
 */
export function bertEndsWork(
  { hiddenSize: H, ffnHiddenSize: F, vocabularySize: V }: BertModelConfiguration,
  { sequenceLength: S, maskedShare }: { readonly sequenceLength: number; readonly maskedShare: number },
): EndsWork {
  const layer = 8 * H * H + 4 * H * F + 4 * S * H;
  return { embedding: embeddingWork, head: (maskedShare * 2 * H * (H + V)) / layer };
}
