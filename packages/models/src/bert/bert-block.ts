import type { BlockSpecification } from '../blocks/block-specification.js';
import { transformerBlockSpecification } from '../blocks/transformer-block-specification.js';
import type { BertModelConfiguration } from './bert-model-configuration.js';

/**
 * The blocks of a BERT: those of `transformerBlockSpecification`, with layer norms where the model has them.
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS when the heads do not divide the hidden size
 */
export const bertBlock = (model: BertModelConfiguration): BlockSpecification =>
  transformerBlockSpecification(model, model.layerNormPlacement);
