import type { ModelSize } from '../step/step-options.js';
import { blockSizes } from './block-sizes.js';

/** Parameters of a rank by where they are. */
export interface ParameterCounts {
  /** Of one layer. */
  readonly layer: number;
  /** Of the embedding of tokens, and of an output head of its own. */
  readonly table: number;
  /** Of the embedding of positions. */
  readonly positions: number;
  /** Whether the output head is the embedding of tokens. */
  readonly isTied: boolean;
}

/** Biases are counted whole: next to the matrices it makes no difference where they are sharded. */
export function parameterCounts(model: ModelSize, tensorParallelSize: number): ParameterCounts {
  const { hiddenSize: h, vocabularySize, sequenceLength } = model;
  const { isLlama, qkv, fc1, ffn } = blockSizes(model);
  const { tiedEmbeddings = !isLlama, positionEmbeddings = !isLlama } = model;
  return {
    // with the scales of two norms, and of a GPT their biases and those of four matmuls
    layer: (h * (qkv + h + fc1 + ffn)) / tensorParallelSize + (isLlama ? 2 * h : qkv + fc1 + 6 * h),
    table: (vocabularySize * h) / tensorParallelSize,
    positions: positionEmbeddings ? sequenceLength * h : 0,
    isTied: tiedEmbeddings,
  };
}
