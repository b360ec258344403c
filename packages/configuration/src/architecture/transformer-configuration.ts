import type { TransformerConfiguration } from '@mtl/models';
import type { ModelConfiguration } from '../pretraining-configuration.js';

/** What flags and tokenizer say of every kind of transformer. */
export function transformerConfiguration(
  model: ModelConfiguration,
  vocabularySize: number,
): Omit<TransformerConfiguration, 'geluKind'> {
  return {
    numLayers: model.numLayers,
    hiddenSize: model.hiddenSize,
    ffnHiddenSize: model.ffnHiddenSize,
    numAttentionHeads: model.numAttentionHeads,
    maxPositionEmbeddings: model.maxPositionEmbeddings,
    vocabularySize,
    makeVocabularySizeDivisibleBy: model.makeVocabSizeDivisibleBy,
    layerNormEpsilon: model.layerNormEpsilon,
    hiddenDropout: model.hiddenDropout,
    attentionDropout: model.attentionDropout,
    initMethodStd: model.initMethodStd,
  };
}
