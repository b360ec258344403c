import type { ListedSoftware } from '../profiles/profile.js';
import type { RankGroup } from './operation.js';

/** The structure of a layer, except its hidden size and query heads. */
interface Block {
  /**
   * `gpt`: biases, GELU, learned position embeddings. `llama`: no biases, SwiGLU, rotary position embeddings.
   * Default: `gpt`.
   */
  readonly block?: 'gpt' | 'llama';
  /** Number of key-value heads. Default: the number of query heads. */
  readonly numQueryGroups?: number;
  /** The MLP's hidden size F. Default: 4 times the model's hidden size. */
  readonly ffnHiddenSize?: number;
}

/** Sizes of a layer's matmuls before tensor parallelism. */
interface BlockSizes {
  readonly isLlama: boolean;
  readonly ffn: number;
  /** How many outputs the matmul for queries, keys and values has. */
  readonly qkv: number;
  /** How many outputs of the matmul `qkv` are keys and values. */
  readonly keysAndValues: number;
  /** How many outputs the MLP's first matmul has: gate and up, if the MLP is gated. */
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
 * The part of a layer that the backward pass recomputes: nothing, attention between QKV and output
 * projection, or whole layers.
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

/** A GPT, or another decoder that `Block` can describe. */
export interface ModelSize extends Block {
  readonly numLayers: number;
  readonly hiddenSize: number;
  readonly numHeads: number;
  readonly sequenceLength: number;
  /** Number of tokens in the vocabulary, with padding. */
  readonly vocabularySize: number;
  /** True if embedding and output head are tied. Default: true for `gpt`, false for `llama`. */
  readonly tiedEmbeddings?: boolean;
  /** True if the model has learned position embeddings. Default: true for `gpt`, false for `llama`. */
  readonly positionEmbeddings?: boolean;
}

/** A rank's parameter counts, by part of the model. */
interface ParameterCounts {
  /** Parameters of one layer. */
  readonly layer: number;
  /** Parameters of the token embedding, or of an untied output head. */
  readonly table: number;
  /** Parameters of the position embedding. */
  readonly positions: number;
  /** True if embedding and output head are tied. */
  readonly isTied: boolean;
}

/**
 * Counts the parameters of a rank. Biases are counted as replicated, because their sharding makes no notable
 * difference.
 */
export function parameterCounts(model: ModelSize, tp: number): ParameterCounts {
  const { hiddenSize: h, vocabularySize, sequenceLength } = model;
  const { isLlama, qkv, fc1, ffn } = blockSizes(model);
  const { tiedEmbeddings = !isLlama, positionEmbeddings = !isLlama } = model;
  return {
    // includes the scales of two norms, and for a GPT their biases and the biases of four matmuls
    layer: (h * (qkv + h + fc1 + ffn)) / tp + (isLlama ? 2 * h : qkv + fc1 + 6 * h),
    table: (vocabularySize * h) / tp,
    positions: positionEmbeddings ? sequenceLength * h : 0,
    isTied: tiedEmbeddings,
  };
}
