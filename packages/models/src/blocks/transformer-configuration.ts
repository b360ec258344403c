import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import type { GeluKind } from '@mtl/kernels';

/** The part that the architectures of GPT and BERT have in common. */
export interface TransformerConfiguration {
  readonly numLayers: number;
  readonly hiddenSize: number;
  /** Feed-forward width; 4 * hiddenSize in GPT-2 and BERT. */
  readonly ffnHiddenSize: number;
  readonly numAttentionHeads: number;
  readonly maxPositionEmbeddings: number;
  /**
   * How many tokens the vocabulary has, without padding. The embedding has further rows as padding (see
   * `paddedVocabularySize`).
   */
  readonly vocabularySize: number;
  readonly makeVocabularySizeDivisibleBy: number;
  readonly layerNormEpsilon: number;
  readonly geluKind: GeluKind;
  readonly hiddenDropout: number;
  readonly attentionDropout: number;
  /**
   * The standard deviation of initial weights. For layers whose output is added to the residual, this value
   * is divided by `sqrt(2 * numLayers)`, as in Megatron-LM.
   */
  readonly initMethodStd: number;
  /**
   * The name of a registered function that returns the block for each layer (see `registerModelBlocks`).
   * Undefined means the standard blocks.
   */
  readonly modelBlocks?: string | undefined;
}

/**
 * Returns how many rows the embedding has: the vocabulary size, rounded up to a multiple of the divisor.
 * Unlike in Megatron-LM, the result does not depend on the tensor-parallel size, so checkpoints fit any
 * layout. Padded rows never enter a softmax.
 */
export function paddedVocabularySize({
  vocabularySize,
  makeVocabularySizeDivisibleBy: divisor,
}: Pick<TransformerConfiguration, 'vocabularySize' | 'makeVocabularySizeDivisibleBy'>): number {
  return Math.ceil(vocabularySize / divisor) * divisor;
}

/** Returns how many trained parameters all layers have together. */
export function numBlockParameters(configuration: TransformerConfiguration): number {
  const { numLayers, hiddenSize: h, ffnHiddenSize: f } = configuration;
  const attention = 4 * h * h + 4 * h;
  const mlp = 2 * h * f + f + h;
  return numLayers * (attention + mlp + 4 * h);
}

/**
 * Returns how many features an attention head has, by default hidden size / heads.
 * @throws ConfigurationError MTL_ATTENTION_HEADS if the hidden size is not divisible by the number of heads
 */
export function computeHeadSize({
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

/** Returns true if the norms for hidden states have biases. */
export const hasNormBiases = ({ normalization = 'LayerNorm' }: BlockVariants): boolean =>
  normalization === 'LayerNorm';

/** How a model's blocks may differ from GPT-2's blocks. An undefined property has GPT-2's value. */
export interface BlockVariants {
  /** D: how many features an attention head has. The default is hidden size / heads. */
  readonly kvChannels?: number | undefined;
  /** True if heads form `numQueryGroups` groups that share keys and values. */
  readonly groupQueryAttention?: boolean | undefined;
  /** G, with `groupQueryAttention`. */
  readonly numQueryGroups?: number | undefined;
  /** True if linear layers have biases. */
  readonly addBiasLinear?: boolean | undefined;
  /**
   * True if the projections to queries, keys and values have biases even when the other linear layers have
   * none.
   */
  readonly addQkvBias?: boolean | undefined;
  /** The kind of all norms. Absent: LayerNorm. */
  readonly normalization?: 'LayerNorm' | 'RMSNorm' | undefined;
  /** True if feed-forward networks are gated: they have three matrices, and SiLU is applied to the gate. */
  readonly swiglu?: boolean | undefined;
  /** True if feed-forward networks use squared ReLU as their activation. */
  readonly squaredRelu?: boolean | undefined;
  /** True if each query and key is normalized with RMSNorm over the features of its head. */
  readonly qkLayernorm?: boolean | undefined;
  /**
   * True if, with `qkLayernorm`, one RMSNorm covers the queries of all heads together and a second one covers
   * the keys, as in OLMoE.
   */
  readonly qkNormWholeWidth?: boolean | undefined;
  /**
   * `L,0`: a query attends to its own position and L earlier positions (sliding window). Undefined means all
   * positions.
   */
  readonly windowSize?: string | undefined;
  /**
   * The layers with a sliding window. The value N means all layers except every Nth layer. A list has one
   * entry per layer: 1 with the window, 0 without it. Undefined means all layers.
   */
  readonly windowAttnSkipFreq?: LayerList | undefined;
  /**
   * Attention sinks. `vanilla`: none. `off-by-one`: a sink with score 0 per head. `learnable`: a sink with a
   * trained score per head. The default is `vanilla`.
   */
  readonly softmaxType?: 'vanilla' | 'off-by-one' | 'learnable' | undefined;
  /**
   * The soft cap c: an attention score s becomes `c * tanh(s / c)`, as in Gemma 2 (see Gemma Team 2024).
   * Undefined means no soft cap.
   */
  readonly attnLogitSoftcapping?: number | undefined;
}

/** Selects layers in Megatron-LM's notation: N, or a list with 0 or 1 for each layer. */
export type LayerList = number | readonly number[];

/**
 * Returns true if `list` selects the layer with global index `layer`. The value N selects every Nth layer (N
 * - 1, 2 * N - 1, ...). A list selects the layers whose entry is 1.
 */
export const isListedLayer = (list: LayerList, layer: number): boolean =>
  typeof list === 'number' ? (layer + 1) % list === 0 : list[layer] === 1;

/**
 * How a model encodes positions:
 * - `learned_absolute`: a learned row for each position is added to the embedding of the token
 * - `rope`: rotary embeddings of queries and keys
 * - `yarn`: rotary embeddings with the frequencies of YaRN
 * - `none`: no encoding; only the causal mask depends on positions
 */
export type PositionEmbeddingType = 'learned_absolute' | 'rope' | 'yarn' | 'none';

/**
 * How a model's blocks encode positions. Undefined properties of rotary embeddings have the values of the
 * first published models.
 */
export interface PositionVariants extends YarnVariants {
  /** The default is `learned_absolute`. BERT cannot use `none`, because it has no causal mask. */
  readonly positionEmbeddingType?: PositionEmbeddingType | undefined;
  /**
   * The layers that do not rotate queries and keys: every Nth layer, or the layers with a 1 in the list.
   * Undefined means that all layers rotate them.
   */
  readonly noRopeFreq?: LayerList | undefined;
  /** The base of the rotary frequencies. Absent: 10000. */
  readonly rotaryBase?: number | undefined;
  /** The fraction of a head's features that is rotated. The default is 1. */
  readonly rotaryPercent?: number | undefined;
  /**
   * True if elements `2 * i` and `2 * i + 1` of a head form a pair. Otherwise, elements i and i + R / 2 form
   * a pair.
   */
  readonly rotaryInterleaved?: boolean | undefined;
  /** All positions are divided by this value (position interpolation). The default is 1. */
  readonly rotarySeqLenInterpolationFactor?: number | undefined;
  /** True if frequencies are scaled as in Llama 3.1, using `ropeScalingFactor`. */
  readonly useRopeScaling?: boolean | undefined;
  /** The scaling factor of Llama 3.1. Absent: 8. */
  readonly ropeScalingFactor?: number | undefined;
  /**
   * How many positions pretraining had. The wavelength limits are computed from this value. The default is
   * 8192.
   */
  readonly ropeScalingOriginalMaxPositionEmbeddings?: number | undefined;
  /**
   * Wavelengths above the pretraining positions divided by this value are multiplied by `ropeScalingFactor`.
   * The default is 1.
   */
  readonly ropeScalingLowFreqFactor?: number | undefined;
  /** Wavelengths below the pretraining positions divided by this value do not change. The default is 4. */
  readonly ropeScalingHighFreqFactor?: number | undefined;
}

/** The options of YaRN (see Peng et al. 2023). Names and defaults are the same as in Megatron-LM. */
export interface YarnVariants {
  /** The ratio of the model's positions to the pretraining positions. The default is 1. */
  readonly rotaryScalingFactor?: number | undefined;
  /** The number of positions in pretraining. Absent: 4096. */
  readonly yarnOriginalMaxPositionEmbeddings?: number | undefined;
  /**
   * Frequencies with at least this many turns within the pretraining length do not change. The default is 32.
   */
  readonly yarnBetaFast?: number | undefined;
  /**
   * Frequencies with at most this many turns within the pretraining length are divided by the scaling factor.
   * The default is 1.
   */
  readonly yarnBetaSlow?: number | undefined;
  /**
   * True if the limits of the interpolated frequency range are rounded outward to integers, which is the
   * default.
   */
  readonly yarnCorrectionRangeRoundToInt?: boolean | undefined;
  /** The weight of ln(factor) in the value by which cosines and sines are multiplied. The default is 1. */
  readonly mscale?: number | undefined;
  /** The weight of ln(factor) in the value by which cosines and sines are divided. The default is 0. */
  readonly mscaleAllDim?: number | undefined;
  /** A factor for cosines and sines. By default, the factor is computed from `mscale` and `mscaleAllDim`. */
  readonly yarnAttentionFactor?: number | undefined;
}

/**
 * Returns true if a model with rotary positions rotates the queries and keys in the layer with global index
 * `layer`.
 */
export const isRotatedLayer = ({ noRopeFreq }: PositionVariants, layer: number): boolean =>
  noRopeFreq === undefined || !isListedLayer(noRopeFreq, layer);

/** Returns how many earlier positions a query in the given layer can attend to. Undefined means all. */
export function windowOfLayer(
  { windowSize, windowAttnSkipFreq: list }: BlockVariants,
  layer: number,
): number | undefined {
  if (windowSize === undefined) return undefined;
  // in Megatron-LM, the value N selects the layers without a window, whereas a list selects the layers with a
  // window
  const hasWindow =
    list === undefined ||
    (typeof list === 'number' ? !isListedLayer(list, layer) : isListedLayer(list, layer));
  return hasWindow ? Number.parseInt(windowSize, 10) : undefined;
}

/** Returns the properties that give the window either to all layers of a model or to none. */
export const windowOfAllLayers = (hasWindow: boolean): Partial<BlockVariants> =>
  hasWindow ? { windowAttnSkipFreq: undefined } : { windowSize: undefined };

/** All properties that determine a model's blocks, except experts. */
export type ModelOfBlocks = TransformerConfiguration & BlockVariants & PositionVariants;

/** Returns true if position embeddings of this type rotate queries and keys. */
export const hasRotaryPositions = (type: PositionEmbeddingType | undefined): boolean =>
  type === 'rope' || type === 'yarn';

/** Returns how many learned position embeddings the model has. 0 means none. */
export function numLearnedPositions({
  positionEmbeddingType = 'learned_absolute',
  maxPositionEmbeddings,
}: PositionVariants & Pick<TransformerConfiguration, 'maxPositionEmbeddings'>): number {
  return positionEmbeddingType === 'learned_absolute' ? maxPositionEmbeddings : 0;
}
