import type { GptModelConfiguration } from '../../src/index.js';

/** Four layers of two heads, and a vocabulary of 21 padded to 24; no dropout. */
export const tinyGpt: GptModelConfiguration = {
  numLayers: 4,
  hiddenSize: 16,
  ffnHiddenSize: 32,
  numAttentionHeads: 2,
  maxPositionEmbeddings: 8,
  vocabularySize: 21,
  makeVocabularySizeDivisibleBy: 8,
  tieEmbeddings: true,
  layerNormEpsilon: 1e-5,
  geluKind: 'tanh',
  hiddenDropout: 0,
  attentionDropout: 0,
  initMethodStd: 0.02,
};
