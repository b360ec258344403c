import type { BlockSpecification, LayerNormPlacement } from './block-specification.js';
import type { GeluFeedForwardSpecification } from './gelu-feed-forward.js';
import { headSizeOf, type TransformerConfiguration } from './transformer-configuration.js';

/**
 * The blocks of GPT-2 and BERT: layer norms, self-attention and a feed-forward network with GELU, all with
 * biases.
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS when the heads do not divide the hidden size
 */
export function transformerBlockSpecification(
  model: TransformerConfiguration,
  normPlacement: LayerNormPlacement,
): BlockSpecification & { readonly feedForward: GeluFeedForwardSpecification } {
  const { numLayers, hiddenSize, ffnHiddenSize, numAttentionHeads, geluKind, initMethodStd } = model;
  return {
    hiddenSize,
    norm: { kind: 'layer-norm', epsilon: model.layerNormEpsilon },
    normPlacement,
    attention: {
      kind: 'self-attention',
      numHeads: numAttentionHeads,
      headSize: headSizeOf(model),
      bias: true,
      dropout: model.attentionDropout,
    },
    feedForward: { kind: 'gelu', ffnHiddenSize, bias: true, geluKind },
    hiddenDropout: model.hiddenDropout,
    initialization: {
      standardDeviation: initMethodStd,
      // weights before a residual start smaller (Megatron-LM)
      residualStandardDeviation: initMethodStd / Math.sqrt(2 * numLayers),
    },
  };
}
