import type { BlockVariants } from '../blocks/block-variants.js';
import type { PositionVariants } from '../blocks/position-variants.js';
import type { TransformerConfiguration } from '../blocks/transformer-configuration.js';

/**
 * The architecture of a GPT: what its weights look like and what they compute. With other blocks it is a
 * Llama.
 */
export interface GptModelConfiguration extends TransformerConfiguration, BlockVariants, PositionVariants {
  readonly tieEmbeddings: boolean;
}
