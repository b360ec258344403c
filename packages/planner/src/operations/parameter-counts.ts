import { type Block, blockSizes } from './block-sizes.js';

/** A GPT, or another decoder that `Block` describes. */
export interface ModelSize extends Block {
  readonly numLayers: number;
  readonly hiddenSize: number;
  readonly numHeads: number;
  readonly sequenceLength: number;
  /** With padding. */
  readonly vocabularySize: number;
  /** Whether the output head is the embedding of tokens. Default: of `gpt`. */
  readonly tiedEmbeddings?: boolean;
  /** Whether positions have learned embeddings. Default: of `gpt`. */
  readonly positionEmbeddings?: boolean;
}

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
