import type { BlockVariants } from '../blocks/block-variants.js';
import type { TransformerConfiguration } from '../blocks/transformer-configuration.js';

/** What is added to the embedding of a token: a learned row for each position, or nothing. */
export type PositionEmbeddingType = 'learned_absolute' | 'none';

/**
 * The architecture of a GPT: what its weights look like and what they compute. With other blocks it is a
 * Llama.
 */
export interface GptModelConfiguration extends TransformerConfiguration, BlockVariants {
  readonly tieEmbeddings: boolean;
  /** Absent: learned_absolute. */
  readonly positionEmbeddingType?: PositionEmbeddingType | undefined;
}
