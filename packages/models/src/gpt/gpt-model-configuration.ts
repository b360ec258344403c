import type { BlockVariants } from '../blocks/block-variants.js';
import type { RotaryVariants } from '../blocks/rotary-variants.js';
import type { TransformerConfiguration } from '../blocks/transformer-configuration.js';

/**
 * How a model knows positions: by a learned row for each that is added to the embedding of a token, by rotary
 * embeddings of queries and keys, or only by its causal mask.
 */
export type PositionEmbeddingType = 'learned_absolute' | 'rope' | 'none';

/**
 * The architecture of a GPT: what its weights look like and what they compute. With other blocks it is a
 * Llama.
 */
export interface GptModelConfiguration extends TransformerConfiguration, BlockVariants, RotaryVariants {
  readonly tieEmbeddings: boolean;
  /** Absent: learned_absolute. */
  readonly positionEmbeddingType?: PositionEmbeddingType | undefined;
}
