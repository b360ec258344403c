import type { TransformerConfiguration } from './transformer-configuration.js';

/**
 * How a model knows positions: by a learned row for each that is added to the embedding of a token, by rotary
 * embeddings of queries and keys, or only by its causal mask.
 */
export type PositionEmbeddingType = 'learned_absolute' | 'rope' | 'none';

/**
 * How the blocks of a model know positions. Numbers of rotary embeddings that are absent are those of the
 * first models that had them.
 */
export interface PositionVariants {
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
  /** Whether frequencies are scaled as in Llama 3.1, from 8192 positions by `ropeScalingFactor`. */
  readonly useRopeScaling?: boolean | undefined;
  /** Absent: 8. */
  readonly ropeScalingFactor?: number | undefined;
}

/** Rows of the table of learned positions; 0 where the model has none. */
export function numLearnedPositions({
  positionEmbeddingType = 'learned_absolute',
  maxPositionEmbeddings,
}: PositionVariants & Pick<TransformerConfiguration, 'maxPositionEmbeddings'>): number {
  return positionEmbeddingType === 'learned_absolute' ? maxPositionEmbeddings : 0;
}
