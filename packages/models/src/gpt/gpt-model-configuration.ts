import type { BlockVariants } from '../blocks/block-variants.js';
import type { PositionVariants } from '../blocks/position-variants.js';
import type { TransformerConfiguration } from '../blocks/transformer-configuration.js';
import type { ExpertVariants } from '../experts/expert-variants.js';

/**
 * The architecture of a GPT: what its weights look like and what they compute. With other blocks it is a
 * Llama, or a mixture of experts.
 */
export interface GptModelConfiguration
  extends TransformerConfiguration,
    BlockVariants,
    PositionVariants,
    ExpertVariants {
  readonly tieEmbeddings: boolean;
}
