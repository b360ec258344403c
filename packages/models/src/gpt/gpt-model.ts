import type { GptModelConfiguration } from './gpt-model-configuration.js';

/** The sizes of a GPT; everything else has a default. */
export type GptModelOptions = Partial<GptModelConfiguration> &
  Pick<
    GptModelConfiguration,
    'numLayers' | 'hiddenSize' | 'numAttentionHeads' | 'maxPositionEmbeddings' | 'vocabularySize'
  >;

/**
 * Returns the configuration of a GPT with the defaults of GPT-2 (Radford et al. 2019): `ffnHiddenSize` is 4
 * times `hiddenSize`, `makeVocabularySizeDivisibleBy` 128, `layerNormEpsilon` 1e-5, `geluKind` tanh, both
 * dropouts 0.1, `initMethodStd` 0.02, and embeddings are tied.
 */
export function gptModel(options: GptModelOptions): GptModelConfiguration {
  return {
    ffnHiddenSize: 4 * options.hiddenSize,
    makeVocabularySizeDivisibleBy: 128,
    tieEmbeddings: true,
    layerNormEpsilon: 1e-5,
    geluKind: 'tanh',
    hiddenDropout: 0.1,
    attentionDropout: 0.1,
    initMethodStd: 0.02,
    ...options,
  };
}
