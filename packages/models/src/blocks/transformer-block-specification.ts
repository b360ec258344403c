import type { BlockSpecification, LayerNormPlacement } from './block-specification.js';
import type { BlockVariants } from './block-variants.js';
import type { GeluFeedForwardSpecification } from './gelu-feed-forward.js';
import { headSizeOf, type TransformerConfiguration } from './transformer-configuration.js';

/**
 * The blocks of a model: those of GPT-2 and BERT, with layer norms, self-attention and a feed-forward network
 * with GELU, all with biases, but for the variants that it has.
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS when the heads do not divide the hidden size
 */
export function transformerBlockSpecification(
  model: TransformerConfiguration & BlockVariants,
  normPlacement: LayerNormPlacement,
): BlockSpecification & { readonly feedForward: GeluFeedForwardSpecification } {
  const { numLayers, hiddenSize, ffnHiddenSize, numAttentionHeads, geluKind, initMethodStd } = model;
  const { groupQueryAttention = false, numQueryGroups = 1 } = model;
  const { addBiasLinear: bias = true, addQkvBias = false } = model;
  return {
    hiddenSize,
    norm: { kind: 'layer-norm', epsilon: model.layerNormEpsilon },
    normPlacement,
    attention: {
      kind: 'self-attention',
      numHeads: numAttentionHeads,
      ...(groupQueryAttention && { numGroups: numQueryGroups }),
      headSize: headSizeOf(model),
      bias,
      ...(addQkvBias && { qkvBias: true }),
      dropout: model.attentionDropout,
    },
    feedForward: { kind: 'gelu', ffnHiddenSize, bias, geluKind },
    hiddenDropout: model.hiddenDropout,
    initialization: {
      standardDeviation: initMethodStd,
      // weights before a residual start smaller (Megatron-LM)
      residualStandardDeviation: initMethodStd / Math.sqrt(2 * numLayers),
    },
  };
}
