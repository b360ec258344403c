import type { GptModelConfiguration } from '@mtl/models';
import type { ModelConfiguration } from '../gpt-configuration.js';

/** The architecture for a vocabulary: flags and tokenizer together. */
export function gptModelConfiguration(
  model: ModelConfiguration,
  vocabularySize: number,
): GptModelConfiguration {
  return {
    numLayers: model.numLayers,
    hiddenSize: model.hiddenSize,
    ffnHiddenSize: model.ffnHiddenSize,
    numAttentionHeads: model.numAttentionHeads,
    maxPositionEmbeddings: model.maxPositionEmbeddings,
    vocabularySize,
    makeVocabularySizeDivisibleBy: model.makeVocabSizeDivisibleBy,
    tieEmbeddings: !model.untieEmbeddingsAndOutputWeights,
    layerNormEpsilon: 1e-5,
    geluKind: 'tanh',
    hiddenDropout: model.hiddenDropout,
    attentionDropout: model.attentionDropout,
    initMethodStd: model.initMethodStd,
  };
}
