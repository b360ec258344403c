import { headSizeOf } from '../blocks/transformer-configuration.js';
import type { GptModelConfiguration } from './gpt-model-configuration.js';

/** Sizes that the matmuls of a layer depend on. */
export interface GptMatmulSizes {
  /** A D: features of all queries. */
  readonly attentionSize: number;
  /** G D: features of all keys, and of all values. */
  readonly keyValueSize: number;
  /** Whether the feed-forward network has a gate: three matrices. */
  readonly isGated: boolean;
  /** Elements of the matrices of a layer. */
  readonly weightsOfLayer: number;
}

export function gptMatmulSizes(model: GptModelConfiguration): GptMatmulSizes {
  const { hiddenSize: H, ffnHiddenSize: F, numAttentionHeads: A } = model;
  const { groupQueryAttention = false, numQueryGroups = 1, swiglu: isGated = false } = model;
  const headSize = headSizeOf(model);
  const attentionSize = A * headSize;
  const keyValueSize = (groupQueryAttention ? numQueryGroups : A) * headSize;
  return {
    attentionSize,
    keyValueSize,
    isGated,
    weightsOfLayer: 2 * H * (attentionSize + keyValueSize) + (isGated ? 3 : 2) * H * F,
  };
}
