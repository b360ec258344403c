import type { ListedSoftware } from '../profiles/profile.js';
import type { RankGroup } from './operation.js';

/** The structure of a layer, without its hidden size and heads. */
interface Block {
  /**
   * `gpt`: biases, GeLU, learned positions. `llama`: no biases, SwiGLU, rotary positions. Default `gpt`.
   */
  readonly block?: 'gpt' | 'llama';
  /** Number of heads of keys and values. Default: the number of heads of queries. */
  readonly numQueryGroups?: number;
  /** Hidden size F of the feed-forward network. Default: 4 times the hidden size of the model. */
  readonly ffnHiddenSize?: number;
}

/** Sizes of a layer's matmuls, not split over ranks. */
interface BlockSizes {
  readonly isLlama: boolean;
  readonly ffn: number;
  /** Number of outputs of the matmul that makes queries, keys and values. */
  readonly qkv: number;
  /** Number of outputs for keys and values. */
  readonly keysAndValues: number;
  /** Number of outputs of the first matmul of the feed-forward network: gate and up, if there is a gate. */
  readonly fc1: number;
}

export function blockSizes(
  block: Block & { readonly hiddenSize: number; readonly numHeads: number },
): BlockSizes {
  const { hiddenSize, numHeads, numQueryGroups = numHeads, ffnHiddenSize: ffn = 4 * hiddenSize } = block;
  const isLlama = block.block === 'llama';
  const keysAndValues = (2 * numQueryGroups * hiddenSize) / numHeads;
  return { isLlama, ffn, qkv: hiddenSize + keysAndValues, keysAndValues, fc1: isLlama ? 2 * ffn : ffn };
}

/**
 * The computation that backward repeats: none, attention between QKV and output projection, or whole layers.
 */
export type Recomputation = 'none' | 'selective' | 'full';

/** Sizes of a transformer layer on one tensor-parallel rank. */
export interface LayerShape extends Block {
  readonly sequenceLength: number;
  readonly microBatchSize: number;
  readonly hiddenSize: number;
  readonly numHeads: number;
  readonly tp: number;
  readonly sequenceParallel: boolean;
  readonly recomputation: Recomputation;
  readonly group: RankGroup;
  readonly software: ListedSoftware;
}

/** A GPT, or another decoder that `Block` describes. */
export interface ModelSize extends Block {
  readonly numLayers: number;
  readonly hiddenSize: number;
  readonly numHeads: number;
  readonly sequenceLength: number;
  /** Number of tokens in the vocabulary, with padding. */
  readonly vocabularySize: number;
  /** True if the output head is the embedding of tokens. Default: true for `gpt`, false for `llama`. */
  readonly tiedEmbeddings?: boolean;
  /** True if positions have learned embeddings. Default: true for `gpt`, false for `llama`. */
  readonly positionEmbeddings?: boolean;
}

/** Parameters of a rank by their place in the model. */
interface ParameterCounts {
  /** Parameters of one layer. */
  readonly layer: number;
  /** Parameters of the embedding of tokens, or of an untied output head. */
  readonly table: number;
  /** Parameters of the embedding of positions. */
  readonly positions: number;
  /** True if the output head is the embedding of tokens. */
  readonly isTied: boolean;
}

/**
 * Counts the parameters of a rank. Biases count as replicated: they are so small next to the matrices that
 * their sharding does not matter.
 */
export function parameterCounts(model: ModelSize, tp: number): ParameterCounts {
  const { hiddenSize: h, vocabularySize, sequenceLength } = model;
  const { isLlama, qkv, fc1, ffn } = blockSizes(model);
  const { tiedEmbeddings = !isLlama, positionEmbeddings = !isLlama } = model;
  return {
    // with the scales of two norms; for a GPT also their biases and the biases of four matmuls
    layer: (h * (qkv + h + fc1 + ffn)) / tp + (isLlama ? 2 * h : qkv + fc1 + 6 * h),
    table: (vocabularySize * h) / tp,
    positions: positionEmbeddings ? sequenceLength * h : 0,
    isTied: tiedEmbeddings,
  };
}
