import type {
  BlockVariants,
  PositionVariants,
  TransformerConfiguration,
} from '../blocks/transformer-configuration.js';
import { type ExpertVariants, hasExperts, specifyExperts } from '../experts/experts-specification.js';
import {
  type BlockOfLayer,
  type BlockSpecification,
  transformerBlockSpecification,
} from '../stages/block-specification.js';

/**
 * A GPT's architecture: the shapes of its weights and its computation. The same type also describes Llama and
 * mixture-of-experts models, whose blocks differ.
 */
export interface GptModelConfiguration
  extends TransformerConfiguration,
    BlockVariants,
    PositionVariants,
    ExpertVariants {
  readonly tieEmbeddings: boolean;
  /**
   * The soft cap c: a logit x of the output head becomes `c * tanh(x / c)` (Gemma Team 2024, "Gemma 2"). If
   * absent, there is no soft cap.
   */
  readonly finalLogitSoftcapping?: number | undefined;
}

/** Options of a GPT. Sizes are required; all other properties have defaults. */
export type GptModelOptions = Partial<GptModelConfiguration> &
  Pick<
    GptModelConfiguration,
    'numLayers' | 'hiddenSize' | 'numAttentionHeads' | 'maxPositionEmbeddings' | 'vocabularySize'
  >;

/**
 * Returns the configuration of a GPT. The defaults are the values of GPT-2 (Radford et al. 2019):
 * `ffnHiddenSize` is 4 times `hiddenSize`, `makeVocabularySizeDivisibleBy` 128, `layerNormEpsilon` 1e-5,
 * `geluKind` tanh, both dropouts 0.1, `initMethodStd` 0.02, and embeddings are tied.
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

/**
 * Returns the block of a GPT's layer without experts: the block of `transformerBlockSpecification`, with
 * norms before sublayers (GPT-2, Radford et al. 2019). `layer` is the layer's global index.
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS if the hidden size is not divisible by the number of heads
 */
export const gptBlock = (model: GptModelConfiguration, layer = 0): BlockSpecification =>
  transformerBlockSpecification(model, { normPlacement: 'pre', layer });

/**
 * Returns the block of each layer of a GPT. It is `gptBlock`, but in layers with experts, the feed-forward
 * network is a mixture of experts.
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS if the hidden size is not divisible by the number of heads
 */
export function gptBlocks(model: GptModelConfiguration): BlockOfLayer {
  return (layer) => {
    const block = gptBlock(model, layer);
    return hasExperts(model, layer) ? { ...block, feedForward: specifyExperts(model) } : block;
  };
}
