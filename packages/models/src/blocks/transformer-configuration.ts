import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import type { GeluKind } from '@mtl/kernels';
import type { BlockVariants } from './block-variants.js';

/** What the architectures of GPT and BERT have in common. */
export interface TransformerConfiguration {
  readonly numLayers: number;
  readonly hiddenSize: number;
  /** Feed-forward width; 4 * hiddenSize in GPT-2 and BERT. */
  readonly ffnHiddenSize: number;
  readonly numAttentionHeads: number;
  readonly maxPositionEmbeddings: number;
  /** Real tokens; the embedding is padded beyond them (see paddedVocabularySize). */
  readonly vocabularySize: number;
  readonly makeVocabularySizeDivisibleBy: number;
  readonly layerNormEpsilon: number;
  readonly geluKind: GeluKind;
  readonly hiddenDropout: number;
  readonly attentionDropout: number;
  /**
   * Standard deviation of initial weights; those before a residual get this / sqrt(2 * numLayers)
   * (Megatron-LM).
   */
  readonly initMethodStd: number;
  /** The name of a function that gives layers their blocks (`registerModelBlocks`). Absent: none does. */
  readonly modelBlocks?: string | undefined;
}

/**
 * Rows of the embedding: the vocabulary rounded up to the divisor. Unlike Megatron's it does not depend on
 * the tensor-parallel size, so that checkpoints fit any layout; padded rows never enter a softmax.
 */
export function paddedVocabularySize({
  vocabularySize,
  makeVocabularySizeDivisibleBy: divisor,
}: Pick<TransformerConfiguration, 'vocabularySize' | 'makeVocabularySizeDivisibleBy'>): number {
  return Math.ceil(vocabularySize / divisor) * divisor;
}

/** Trained parameters of all layers. */
export function numBlockParameters(configuration: TransformerConfiguration): number {
  const { numLayers, hiddenSize: h, ffnHiddenSize: f } = configuration;
  const attention = 4 * h * h + 4 * h;
  const mlp = 2 * h * f + f + h;
  return numLayers * (attention + mlp + 4 * h);
}

/**
 * Features of an attention head: hidden size / heads where nothing else is given.
 * @throws ConfigurationError MTL_ATTENTION_HEADS where the heads do not divide the hidden size
 */
export function headSizeOf({
  hiddenSize,
  numAttentionHeads,
  kvChannels,
}: Pick<TransformerConfiguration, 'hiddenSize' | 'numAttentionHeads'> & BlockVariants): number {
  if (kvChannels !== undefined) return kvChannels;
  if (hiddenSize % numAttentionHeads === 0) return hiddenSize / numAttentionHeads;
  throw new ConfigurationError(
    'MTL_ATTENTION_HEADS',
    `${numAttentionHeads} attention heads do not divide a hidden size of ${hiddenSize}`,
    { expected: nearestDivisors(hiddenSize, numAttentionHeads).join(' or ') },
  );
}
