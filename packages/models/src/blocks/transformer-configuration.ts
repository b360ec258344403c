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
  /** Real tokens; the embedding is padded beyond them (see paddedVocabularySize). */
  readonly vocabularySize: number;
  readonly makeVocabularySizeDivisibleBy: number;
  readonly layerNormEpsilon: number;
  readonly geluKind: GeluKind;
  readonly hiddenDropout: number;
  readonly attentionDropout: number;
  /**
   * Standard deviation of initial weights; layers before a residual get this / sqrt(2 * numLayers)
   * (Megatron-LM).
   */
  readonly initMethodStd: number;
  /**
   * The name of a function that gives layers their blocks (`registerModelBlocks`). Absent: the standard
   * blocks.
   */
  readonly modelBlocks?: string | undefined;
}

/**
 * Returns the rows of the embedding: the vocabulary rounded up to the divisor. Unlike Megatron's, this does
 * not depend on the tensor-parallel size, so checkpoints fit any layout. Padded rows never enter a softmax.
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
 * Returns the features of an attention head; the default is hidden size / heads.
 * @throws ConfigurationError MTL_ATTENTION_HEADS where the heads do not divide the hidden size
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

/** The properties in which the blocks of a model may differ from GPT-2's. Absent: as in GPT-2. */
export interface BlockVariants {
  /** D: features of an attention head. Absent: hidden size / heads. */
  readonly kvChannels?: number | undefined;
  /** True if heads share keys and values in `numQueryGroups` groups. */
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
  /** True if feed-forward networks are gated: three matrices, with SiLU of the gate. */
  readonly swiglu?: boolean | undefined;
  /** True if the activation of feed-forward networks is squared ReLU. */
  readonly squaredRelu?: boolean | undefined;
  /** True if queries and keys are normalized over the features of their head (with RMSNorm). */
  readonly qkLayernorm?: boolean | undefined;
  /**
   * True if with `qkLayernorm` the queries of all heads are normalized together, and the keys (OLMoE). With
   * RMSNorm.
   */
  readonly qkNormWholeWidth?: boolean | undefined;
  /** `L,0`: a query sees its own position and L before it. Absent: all. */
  readonly windowSize?: string | undefined;
  /**
   * The layers that have the window: all but every Nth, or a list with 1 for each layer that has it and 0 for
   * each that sees all positions. Absent: all layers.
   */
  readonly windowAttnSkipFreq?: LayerList | undefined;
  /**
   * Sinks of attention: none (`vanilla`), one of score 0 for each head (`off-by-one`), or one whose score is
   * trained (`learnable`). Absent: vanilla.
   */
  readonly softmaxType?: 'vanilla' | 'off-by-one' | 'learnable' | undefined;
}

/** Some layers of a model, as Megatron-LM writes them: N, or a list with 0 or 1 for each layer. */
export type LayerList = number | readonly number[];

/**
 * Returns whether a layer, by its global index, is one of every N layers' last, or has a 1 in the list
 * (Megatron-LM's frequencies of layers).
 */
export const isListedLayer = (list: LayerList, layer: number): boolean =>
  typeof list === 'number' ? (layer + 1) % list === 0 : list[layer] === 1;

/**
 * The way in which a model encodes positions: `learned_absolute`, a learned row for each position, added to
 * the embedding of the token; `rope`, rotary embeddings of queries and keys; `yarn`, rotary embeddings with
 * the frequencies of YaRN; `none`, only the causal mask.
 */
export type PositionEmbeddingType = 'learned_absolute' | 'rope' | 'yarn' | 'none';

/**
 * How the blocks of a model encode positions. Absent numbers of rotary embeddings default to the first
 * published models.
 */
export interface PositionVariants extends YarnVariants {
  /** Absent: learned_absolute. A BERT cannot have `none`, since it has no causal mask. */
  readonly positionEmbeddingType?: PositionEmbeddingType | undefined;
  /**
   * The layers whose queries and keys are not rotated: every Nth, or a list with 1 for each. Absent: none.
   */
  readonly noRopeFreq?: LayerList | undefined;
  /** The base of the rotary frequencies. Absent: 10000. */
  readonly rotaryBase?: number | undefined;
  /** Share of the features of a head that are rotated. Absent: 1. */
  readonly rotaryPercent?: number | undefined;
  /** True if elements 2i and 2i + 1 of a head are a pair; else i and i + R / 2. */
  readonly rotaryInterleaved?: boolean | undefined;
  /** The number that all angles are divided by (position interpolation). Absent: 1. */
  readonly rotarySeqLenInterpolationFactor?: number | undefined;
  /** True if frequencies are scaled as in Llama 3.1, by `ropeScalingFactor`. */
  readonly useRopeScaling?: boolean | undefined;
  /** The factor of the scaling of Llama 3.1. Absent: 8. */
  readonly ropeScalingFactor?: number | undefined;
  /**
   * The number of positions in pretraining, which determines the wavelengths that are scaled. Absent: 8192.
   */
  readonly ropeScalingOriginalMaxPositionEmbeddings?: number | undefined;
  /** Wavelengths above (positions of pretraining / this number) are multiplied by the factor. Absent: 1. */
  readonly ropeScalingLowFreqFactor?: number | undefined;
  /** Wavelengths below (positions of pretraining / this number) are kept. Absent: 4. */
  readonly ropeScalingHighFreqFactor?: number | undefined;
}

/** YaRN (Peng et al. 2023), by Megatron-LM's names and with its defaults. */
export interface YarnVariants {
  /** The number of positions divided by the positions of pretraining. Absent: 1. */
  readonly rotaryScalingFactor?: number | undefined;
  /** The number of positions in pretraining. Absent: 4096. */
  readonly yarnOriginalMaxPositionEmbeddings?: number | undefined;
  /**
   * Frequencies with at least this number of turns within the positions of pretraining are kept. Absent: 32.
   */
  readonly yarnBetaFast?: number | undefined;
  /**
   * Frequencies with at most this number of turns within the positions of pretraining are divided. Absent: 1.
   */
  readonly yarnBetaSlow?: number | undefined;
  /** True if the bounds of the interpolated frequency range are rounded outward to integers. Absent: true. */
  readonly yarnCorrectionRangeRoundToInt?: boolean | undefined;
  /** Weight of ln(factor) in the multiplier of cosines and sines. Absent: 1. */
  readonly mscale?: number | undefined;
  /** Weight of ln(factor) in the divisor of cosines and sines. Absent: 0. */
  readonly mscaleAllDim?: number | undefined;
  /**
   * A multiplier of cosines and sines that replaces the multiplier computed from the two weights. Absent: the
   * computed multiplier.
   */
  readonly yarnAttentionFactor?: number | undefined;
}

/** Returns whether a model with rotary positions rotates the queries and keys of a layer. */
export const isRotatedLayer = ({ noRopeFreq }: PositionVariants, layer: number): boolean =>
  noRopeFreq === undefined || !isListedLayer(noRopeFreq, layer);

/** Returns the number of positions before its own that a query of a layer sees; undefined: all. */
export function windowOfLayer(
  { windowSize, windowAttnSkipFreq: list }: BlockVariants,
  layer: number,
): number | undefined {
  if (windowSize === undefined) return undefined;
  // a number N is of the layers without a window, a list of the layers with one (Megatron-LM)
  const hasWindow =
    list === undefined ||
    (typeof list === 'number' ? !isListedLayer(list, layer) : isListedLayer(list, layer));
  return hasWindow ? Number.parseInt(windowSize, 10) : undefined;
}

/** The properties that decide the blocks of a model, but for its experts. */
export type ModelOfBlocks = TransformerConfiguration & BlockVariants & PositionVariants;

/** Returns whether queries and keys are rotated. */
export const hasRotaryPositions = (type: PositionEmbeddingType | undefined): boolean =>
  type === 'rope' || type === 'yarn';

/** Returns the rows of the table of learned positions; 0 where the model has none. */
export function numLearnedPositions({
  positionEmbeddingType = 'learned_absolute',
  maxPositionEmbeddings,
}: PositionVariants & Pick<TransformerConfiguration, 'maxPositionEmbeddings'>): number {
  return positionEmbeddingType === 'learned_absolute' ? maxPositionEmbeddings : 0;
}
