import type { BlockSpecification } from '../blocks/block-specification.js';
import { transformerBlockSpecification } from '../blocks/transformer-block-specification.js';
import type { GptModelConfiguration } from './gpt-model-configuration.js';

/**
 * The blocks of a GPT: those of `transformerBlockSpecification`, with norms before sublayers (GPT-2, Radford
 * et al. 2019).
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS when the heads do not divide the hidden size
 */
export const gptBlock = (model: GptModelConfiguration): BlockSpecification =>
  transformerBlockSpecification(model, 'pre');
