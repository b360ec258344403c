import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import type { EndsWork } from './cut-layers.js';
import { embeddingWork } from './embedding-work.js';

/**
 * The work of embedding and head in layers. The head's is that of its product, 2 V H a token beside the
 * 8 H^2 + 4 H F + 4 S H of a layer: 4.5 for GPT-2 of 124 million parameters with 1024 tokens.
 *
 * @param sequenceLength S
 */
export function gptEndsWork(
  { hiddenSize: H, ffnHiddenSize: F, vocabularySize: V }: GptModelConfiguration,
  sequenceLength: number,
): EndsWork {
  const layer = 8 * H * H + 4 * H * F + 4 * sequenceLength * H;
  return { embedding: embeddingWork, head: (2 * V * H) / layer };
}
