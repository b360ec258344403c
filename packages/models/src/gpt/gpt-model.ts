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
 * The architecture of a GPT: the shapes of its weights and its computation. The same type describes Llama and
 * mixture-of-experts models, which have other blocks.
 */
export interface GptModelConfiguration
  extends TransformerConfiguration,
    BlockVariants,
    PositionVariants,
    ExpertVariants {
  readonly tieEmbeddings: boolean;
  /** c: the logits x of the output head become c tanh(x / c) (Gemma 2, Gemma Team 2024). Absent: no cap. */
  readonly finalLogitSoftcapping?: number | undefined;
}

/** Options of a GPT: sizes are required, other properties have defaults. */
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

/**
 * Returns the block of a layer of a GPT without experts: the block of `transformerBlockSpecification`, with
 * norms before sublayers (GPT-2, Radford et al. 2019). `layer`: the global index.
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS if the hidden size is not divisible by the number of heads
 */
export const gptBlock = (model: GptModelConfiguration, layer = 0): BlockSpecification =>
  transformerBlockSpecification(model, { normPlacement: 'pre', layer });

/**
 * Returns the block of each layer of a GPT: `gptBlock`, with a mixture of experts as the feed-forward network
 * of layers with experts.
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS if the hidden size is not divisible by the number of heads
 */
export function gptBlocks(model: GptModelConfiguration): BlockOfLayer {
  return (layer) => {
    const block = gptBlock(model, layer);
    return hasExperts(model, layer) ? { ...block, feedForward: specifyExperts(model) } : block;
  };
}
