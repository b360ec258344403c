import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import type { GeluKind } from '@mtl/kernels';

/** The common part of the architectures of GPT and BERT. */
export interface TransformerConfiguration {
  readonly numLayers: number;
  readonly hiddenSize: number;
  /** Feed-forward width; 4 * hiddenSize in GPT-2 and BERT. */
  readonly ffnHiddenSize: number;
  readonly numAttentionHeads: number;
  readonly maxPositionEmbeddings: number;
  /** The number of real tokens; the embedding has further rows as padding (`paddedVocabularySize`). */
  readonly vocabularySize: number;
  readonly makeVocabularySizeDivisibleBy: number;
  readonly layerNormEpsilon: number;
  readonly geluKind: GeluKind;
  readonly hiddenDropout: number;
  readonly attentionDropout: number;
  /**
   * The standard deviation of initial weights. Layers whose output is added to the residual use this value
   * divided by sqrt(2 * numLayers), as in Megatron-LM.
   */
  readonly initMethodStd: number;
  /**
   * The name of a registered function that returns the block of each layer (`registerModelBlocks`). Absent:
   * the standard blocks.
   */
  readonly modelBlocks?: string | undefined;
}

/**
 * Returns the number of rows of the embedding: the vocabulary size, rounded up to a multiple of the divisor.
 * Unlike in Megatron-LM, the result does not depend on the tensor-parallel size, so checkpoints fit any
 * layout. Padded rows never enter a softmax.
 */
export function paddedVocabularySize({
  vocabularySize,
  makeVocabularySizeDivisibleBy: divisor,
}: Pick<TransformerConfiguration, 'vocabularySize' | 'makeVocabularySizeDivisibleBy'>): number {
  return Math.ceil(vocabularySize / divisor) * divisor;
}

/** Returns the number of trained parameters of all layers. */
export function numBlockParameters(configuration: TransformerConfiguration): number {
  const { numLayers, hiddenSize: h, ffnHiddenSize: f } = configuration;
  const attention = 4 * h * h + 4 * h;
  const mlp = 2 * h * f + f + h;
  return numLayers * (attention + mlp + 4 * h);
}

/**
 * Returns the number of features of an attention head; the default is hidden size / heads.
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

/** Returns true if the norms of hidden states have biases. */
export const hasNormBiases = ({ normalization = 'LayerNorm' }: BlockVariants): boolean =>
  normalization === 'LayerNorm';

/**
 * The properties in which the blocks of a model may differ from the blocks of GPT-2. An absent property has
 * GPT-2's value.
 */
export interface BlockVariants {
  /** D: the number of features of an attention head. Absent: hidden size / heads. */
  readonly kvChannels?: number | undefined;
  /** True if heads share keys and values, in `numQueryGroups` groups. */
  readonly groupQueryAttention?: boolean | undefined;
  /** G, with `groupQueryAttention`. */
  readonly numQueryGroups?: number | undefined;
  /** True if linear layers have biases. */
  readonly addBiasLinear?: boolean | undefined;
  /**
   * True if the projections to queries, keys and values have biases even if other linear layers have none.
   */
  readonly addQkvBias?: boolean | undefined;
  /** The kind of all norms. Absent: LayerNorm. */
  readonly normalization?: 'LayerNorm' | 'RMSNorm' | undefined;
  /**
   * True if feed-forward networks are gated. They then have three matrices, and SiLU is applied to the gate.
   */
  readonly swiglu?: boolean | undefined;
  /** True if the activation of feed-forward networks is squared ReLU. */
  readonly squaredRelu?: boolean | undefined;
  /** True if each query and key is normalized over the features of its head, with RMSNorm. */
  readonly qkLayernorm?: boolean | undefined;
  /**
   * True if, with `qkLayernorm`, an RMSNorm covers the queries of all heads together, and another covers the
   * keys (OLMoE).
   */
  readonly qkNormWholeWidth?: boolean | undefined;
  /**
   * `L,0`: a query attends to its own position and L earlier positions (sliding window). Absent: all
   * positions.
   */
  readonly windowSize?: string | undefined;
  /**
   * The layers that have the sliding window. A number N means all layers except every Nth layer. A list has 1
   * for each layer with the window, and 0 for each layer without it. Absent: all layers.
   */
  readonly windowAttnSkipFreq?: LayerList | undefined;
  /**
   * Attention sinks: none (`vanilla`), a sink with score 0 per head (`off-by-one`), or a sink with a trained
   * score per head (`learnable`). Absent: vanilla.
   */
  readonly softmaxType?: 'vanilla' | 'off-by-one' | 'learnable' | undefined;
  /** c: attention scores s become c tanh(s / c) (Gemma 2, Gemma Team 2024). Absent: no cap. */
  readonly attnLogitSoftcapping?: number | undefined;
}

/** A selection of layers in Megatron-LM's notation: N, or a list with 0 or 1 for each layer. */
export type LayerList = number | readonly number[];

/**
 * Returns true if a list selects a layer: N selects every Nth layer (N - 1, 2 N - 1, ...), and a list selects
 * the layers with a 1. `layer`: the global index.
 */
export const isListedLayer = (list: LayerList, layer: number): boolean =>
  typeof list === 'number' ? (layer + 1) % list === 0 : list[layer] === 1;

/**
 * The position encoding of a model:
 * - `learned_absolute`: a learned row for each position is added to the embedding of the token
 * - `rope`: rotary embeddings of queries and keys
 * - `yarn`: rotary embeddings with the frequencies of YaRN
 * - `none`: no encoding; only the causal mask depends on positions
 */
export type PositionEmbeddingType = 'learned_absolute' | 'rope' | 'yarn' | 'none';

/**
 * The position encoding in the blocks of a model. An absent number of rotary embeddings means the value of
 * the first published models.
 */
export interface PositionVariants extends YarnVariants {
  /** Absent: learned_absolute. `none` is not possible for BERT, which has no causal mask. */
  readonly positionEmbeddingType?: PositionEmbeddingType | undefined;
  /**
   * The layers without rotation of queries and keys: every Nth layer, or the layers with a 1 in the list.
   * Absent: none.
   */
  readonly noRopeFreq?: LayerList | undefined;
  /** The base of the rotary frequencies. Absent: 10000. */
  readonly rotaryBase?: number | undefined;
  /** The fraction of a head's features that are rotated. Absent: 1. */
  readonly rotaryPercent?: number | undefined;
  /** True if elements 2i and 2i + 1 of a head form a pair. Otherwise elements i and i + R / 2 do. */
  readonly rotaryInterleaved?: boolean | undefined;
  /** The number by which all positions are divided (position interpolation). Absent: 1. */
  readonly rotarySeqLenInterpolationFactor?: number | undefined;
  /** True if frequencies are scaled as in Llama 3.1, with factor `ropeScalingFactor`. */
  readonly useRopeScaling?: boolean | undefined;
  /** The scaling factor of Llama 3.1. Absent: 8. */
  readonly ropeScalingFactor?: number | undefined;
  /** The number of positions in pretraining, from which the wavelength limits are computed. Absent: 8192. */
  readonly ropeScalingOriginalMaxPositionEmbeddings?: number | undefined;
  /**
   * Wavelengths above the number of pretraining positions divided by this value are multiplied by the factor.
   * Absent: 1.
   */
  readonly ropeScalingLowFreqFactor?: number | undefined;
  /** Wavelengths below the number of pretraining positions divided by this value do not change. Absent: 4. */
  readonly ropeScalingHighFreqFactor?: number | undefined;
}

/** The options of YaRN (Peng et al. 2023), with Megatron-LM's names and defaults. */
export interface YarnVariants {
  /** The number of positions divided by the positions of pretraining. Absent: 1. */
  readonly rotaryScalingFactor?: number | undefined;
  /** The number of positions in pretraining. Absent: 4096. */
  readonly yarnOriginalMaxPositionEmbeddings?: number | undefined;
  /**
   * Frequencies with at least this number of turns within the pretraining length do not change. Absent: 32.
   */
  readonly yarnBetaFast?: number | undefined;
  /**
   * Frequencies with at most this number of turns within the pretraining length are divided by the factor.
   * Absent: 1.
   */
  readonly yarnBetaSlow?: number | undefined;
  /** True if the limits of the interpolated frequency range are rounded outward to integers. Absent: true. */
  readonly yarnCorrectionRangeRoundToInt?: boolean | undefined;
  /** The weight of ln(factor) in the number that cosines and sines are multiplied by. Absent: 1. */
  readonly mscale?: number | undefined;
  /** The weight of ln(factor) in the number that cosines and sines are divided by. Absent: 0. */
  readonly mscaleAllDim?: number | undefined;
  /**
   * A factor of cosines and sines. It replaces the factor computed from the two weights. Absent: the computed
   * factor.
   */
  readonly yarnAttentionFactor?: number | undefined;
}

/** Returns true if a model with rotary positions rotates the queries and keys of a layer. */
export const isRotatedLayer = ({ noRopeFreq }: PositionVariants, layer: number): boolean =>
  noRopeFreq === undefined || !isListedLayer(noRopeFreq, layer);

/** Returns the number of earlier positions that a query of a layer can attend to; undefined: all. */
export function windowOfLayer(
  { windowSize, windowAttnSkipFreq: list }: BlockVariants,
  layer: number,
): number | undefined {
  if (windowSize === undefined) return undefined;
  // in Megatron-LM, a number N selects the layers without a window, but a list selects the layers with a
  // window
  const hasWindow =
    list === undefined ||
    (typeof list === 'number' ? !isListedLayer(list, layer) : isListedLayer(list, layer));
  return hasWindow ? Number.parseInt(windowSize, 10) : undefined;
}

/** Returns the properties that give the window to all layers of a model, or to none. */
export const windowOfAllLayers = (hasWindow: boolean): Partial<BlockVariants> =>
  hasWindow ? { windowAttnSkipFreq: undefined } : { windowSize: undefined };

/** The properties that determine the blocks of a model, except experts. */
export type ModelOfBlocks = TransformerConfiguration & BlockVariants & PositionVariants;

/** Returns true if queries and keys are rotated. */
export const hasRotaryPositions = (type: PositionEmbeddingType | undefined): boolean =>
  type === 'rope' || type === 'yarn';

/** Returns the number of learned position embeddings; 0 if the model has none. */
export function numLearnedPositions({
  positionEmbeddingType = 'learned_absolute',
  maxPositionEmbeddings,
}: PositionVariants & Pick<TransformerConfiguration, 'maxPositionEmbeddings'>): number {
  return positionEmbeddingType === 'learned_absolute' ? maxPositionEmbeddings : 0;
}
