import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import type { EndsWork } from './cut-layers.js';

/**
 * The work of embedding and head in layers. The head's is that of its product, 2 V H a token beside the 8 H^2 + 4 H F + 4 S H
 * of a layer: 4.5 for GPT-2 of 124 million parameters with 1024 tokens.
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

/**
 * Lookups, their sum and dropout, and the sum of gradients by token do no products, but some ten passes over S B H numbers: 40 H
 * bytes a token beside the 72 H^2 operations that a layer does forward and backward. Where a byte takes as long as 16
 * operations (a core of a CPU), that is 9 / H of a layer, 0.01 of GPT-2's. `npm run bench` measured between -0.03 and 0.04
 * for 768 to 2048: nothing that it can tell from nothing, but enough to break ties in favour of stage 0.
 */
const embeddingWork = 0.01;
