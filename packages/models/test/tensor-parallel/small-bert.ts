import type { BertModelConfiguration, BertTask, MaskedTokenBatch, TaskTokenBatch } from '@mtl/models';

/** A BERT of the size of these tests' GPT; of four ranks the last holds 18 tokens and 6 of padding. */
export const smallBert: BertModelConfiguration = {
  numLayers: 2,
  hiddenSize: 32,
  ffnHiddenSize: 64,
  numAttentionHeads: 4,
  maxPositionEmbeddings: 16,
  vocabularySize: 90,
  makeVocabularySizeDivisibleBy: 8,
  layerNormEpsilon: 1e-5,
  geluKind: 'erf',
  hiddenDropout: 0.1,
  attentionDropout: 0.1,
  // large, so that every path carries a gradient that can be seen
  initMethodStd: 0.2,
  tokenTypeVocabularySize: 2,
  layerNormPlacement: 'pre',
  sentenceOrderHead: true,
};

const [batchSize, sequenceLength] = [2, 8];

/**
 * Returns one batch for every rank: one row of three padded, masked tokens in all parts of the sequence, one
 * place unused.
 */
export function smallMaskedBatch(): MaskedTokenBatch {
  const size = batchSize * sequenceLength;
  const flat = (row: number, position: number): number => position * batchSize + row;
  const masked = [flat(0, 1), flat(0, 2), flat(0, 4), flat(1, 2), flat(1, 7)];
  return {
    batchSize,
    sequenceLength,
    tokens: Int32Array.from({ length: size }, (_, index) => (index * 37 + 5) % smallBert.vocabularySize),
    tokenTypes: Int32Array.from({ length: size }, (_, index) => (index < size / 2 ? 0 : 1)),
    // packed, no sample begins where the rows are split, for two ranks or four
    lengths: Int32Array.of(sequenceLength - 3, sequenceLength),
    maskedPositions: Int32Array.of(...masked, 0),
    maskedLabels: Int32Array.of(3, 89, 41, 72, 3, 0),
    maskedWeights: Float32Array.of(1, 1, 1, 1, 1, 0),
    numMasked: masked.length,
    sentenceOrderLabels: Int32Array.of(1, 0),
    sampleNumbers: Float64Array.of(41, 7),
  };
}

/** Returns these sequences for a task: two samples, or one of two choices. */
export function smallTaskBatch({ kind }: BertTask): TaskTokenBatch {
  const { tokens, tokenTypes, lengths } = smallMaskedBatch();
  const numChoices = kind === 'multiple-choice' ? 2 : 1;
  const isSpan = kind === 'span';
  return {
    sequenceLength,
    tokens,
    tokenTypes,
    lengths,
    numChoices,
    batchSize: batchSize / numChoices,
    labels: isSpan ? undefined : Int32Array.of(1, 2).subarray(0, batchSize / numChoices),
    startPositions: isSpan ? Int32Array.of(2, 0) : undefined,
    endPositions: isSpan ? Int32Array.of(7, 0) : undefined,
    sampleNumbers: Float64Array.of(41, 7).subarray(0, batchSize / numChoices),
  };
}
