import type { BlockOfLayer, BlockSpecification } from '../blocks/block-specification.js';
import { transformerBlockSpecification } from '../blocks/transformer-block-specification.js';
import { hasExperts } from '../experts/expert-variants.js';
import { expertsSpecificationOf } from '../experts/experts-specification-of.js';
import type { GptModelConfiguration } from './gpt-model-configuration.js';

/**
 * A block of a GPT without experts: that of `transformerBlockSpecification`, with norms before sublayers
 * (GPT-2, Radford et al. 2019).
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS when the heads do not divide the hidden size
 */
export const gptBlock = (model: GptModelConfiguration): BlockSpecification =>
  transformerBlockSpecification(model, 'pre');

/**
 * The blocks of a GPT: `gptBlock` in all layers, with a mixture of experts as feed-forward network in those
 * that have experts.
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS when the heads do not divide the hidden size
 */
export function gptBlocks(model: GptModelConfiguration): BlockSpecification | BlockOfLayer {
  const dense = gptBlock(model);
  if (model.numExperts === undefined) return dense;
  const sparse = { ...dense, feedForward: expertsSpecificationOf(model) };
  return (layer) => (hasExperts(model, layer) ? sparse : dense);
}
