import type { TransformerConfiguration } from './transformer-configuration.js';

/**
 * How a model knows positions: by a learned row for each that is added to the embedding of a token, by rotary
 * embeddings of queries and keys, also with the frequencies of YaRN, or only by its causal mask.
 */
export type PositionEmbeddingType = 'learned_absolute' | 'rope' | 'yarn' | 'none';

/**
 * How the blocks of a model know positions. Numbers of rotary embeddings that are absent are those of the
 * first models that had them.
 */
export interface PositionVariants extends YarnVariants {
  /** Absent: learned_absolute. A BERT, which has no causal mask, is not `none`. */
  readonly positionEmbeddingType?: PositionEmbeddingType | undefined;
  /** Absent: 10000. */
  readonly rotaryBase?: number | undefined;
  /** Share of the features of a head that are rotated. Absent: 1. */
  readonly rotaryPercent?: number | undefined;
  /** Whether elements 2i and 2i + 1 of a head are a pair; else i and i + R / 2. */
  readonly rotaryInterleaved?: boolean | undefined;
  /** All angles are divided by it (position interpolation). Absent: 1. */
  readonly rotarySeqLenInterpolationFactor?: number | undefined;
  /** Whether frequencies are scaled as in Llama 3.1, by `ropeScalingFactor`. */
  readonly useRopeScaling?: boolean | undefined;
  /** Absent: 8. */
  readonly ropeScalingFactor?: number | undefined;
  /** Positions of pretraining, which the wavelengths that are scaled follow from. Absent: 8192. */
  readonly ropeScalingOriginalMaxPositionEmbeddings?: number | undefined;
  /** Wavelengths above the positions of pretraining divided by it are multiplied. Absent: 1. */
  readonly ropeScalingLowFreqFactor?: number | undefined;
  /** Wavelengths below the positions of pretraining divided by it are kept. Absent: 4. */
  readonly ropeScalingHighFreqFactor?: number | undefined;
}

/** YaRN (Peng et al. 2023), by Megatron-LM's names and with its defaults. */
export interface YarnVariants {
  /** How many times as many positions as in pretraining. Absent: 1. */
  readonly rotaryScalingFactor?: number | undefined;
  /** Positions of pretraining. Absent: 4096. */
  readonly yarnOriginalMaxPositionEmbeddings?: number | undefined;
  /** Frequencies that turn at least so often within them are kept. Absent: 32. */
  readonly yarnBetaFast?: number | undefined;
  /** Frequencies that turn at most so often within them are divided. Absent: 1. */
  readonly yarnBetaSlow?: number | undefined;
  /** Whether the range of frequencies between is widened to whole indices. Absent: true. */
  readonly yarnCorrectionRangeRoundToInt?: boolean | undefined;
  /** Weight of ln(factor) in what cosines and sines are multiplied by. Absent: 1. */
  readonly mscale?: number | undefined;
  /** Its weight in what they are divided by. Absent: 0. */
  readonly mscaleAllDim?: number | undefined;
  /** What cosines and sines are multiplied by instead; absent: what follows from the two weights. */
  readonly yarnAttentionFactor?: number | undefined;
}

/** Whether queries and keys are rotated. */
export const hasRotaryPositions = (type: PositionEmbeddingType | undefined): boolean =>
  type === 'rope' || type === 'yarn';

/** Rows of the table of learned positions; 0 where the model has none. */
export function numLearnedPositions({
  positionEmbeddingType = 'learned_absolute',
  maxPositionEmbeddings,
}: PositionVariants & Pick<TransformerConfiguration, 'maxPositionEmbeddings'>): number {
  return positionEmbeddingType === 'learned_absolute' ? maxPositionEmbeddings : 0;
}
