import type { ExpertVariants } from '../experts/expert-variants.js';
import type { FeedForwardSpecification } from './activated-feed-forward.js';
import type { BlockSpecification, LayerNormPlacement } from './block-specification.js';
import type { BlockVariants } from './block-variants.js';
import type { ClampedGluSpecification } from './feed-forward-activation.js';
import type { GeluFeedForwardSpecification } from './gelu-feed-forward-specification.js';
import type { PositionVariants } from './position-variants.js';
import { rotarySpecification } from './rotary-specification.js';
import { headSizeOf, type TransformerConfiguration } from './transformer-configuration.js';

/**
 * The blocks of a model: those of GPT-2 and BERT, with layer norms, self-attention and a feed-forward network
 * with GELU, all with biases, except for the variants that it has; rotary position embeddings are part of
 * attention (Llama, Touvron et al. 2023; RoFormer, Su et al. 2021).
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS when the heads do not divide the hidden size
 */
export function transformerBlockSpecification(
  model: TransformerConfiguration & BlockVariants & PositionVariants & ExpertVariants,
  normPlacement: LayerNormPlacement,
): BlockSpecification {
  const { numLayers, hiddenSize, ffnHiddenSize, numAttentionHeads, initMethodStd } = model;
  const { groupQueryAttention = false, numQueryGroups = 1 } = model;
  const { addBiasLinear: bias = true, addQkvBias = false } = model;
  const { normalization = 'LayerNorm', qkLayernorm = false, qkNormWholeWidth = false, windowSize } = model;
  const epsilon = model.layerNormEpsilon;
  const headSize = headSizeOf(model);
  const rotary = rotarySpecification(model, headSize);
  const norm = { kind: normalization === 'RMSNorm' ? 'rms-norm' : 'layer-norm', epsilon } as const;
  return {
    hiddenSize,
    norm,
    normPlacement,
    attention: {
      kind: 'self-attention',
      numHeads: numAttentionHeads,
      ...(groupQueryAttention && { numGroups: numQueryGroups }),
      headSize,
      bias,
      ...(addQkvBias && { qkvBias: true }),
      dropout: model.attentionDropout,
      ...(windowSize !== undefined && { windowSize: Number.parseInt(windowSize, 10) }),
      ...(qkLayernorm && { queryKeyNorm: { ...norm, ...(qkNormWholeWidth && { wholeWidth: true }) } }),
      ...(rotary !== undefined && { rotary }),
    },
    feedForward: feedForwardOf(model, { ffnHiddenSize, bias }),
    hiddenDropout: model.hiddenDropout,
    initialization: {
      standardDeviation: initMethodStd,
      // weights before a residual start smaller (Megatron-LM)
      residualStandardDeviation: initMethodStd / Math.sqrt(2 * numLayers),
    },
  };
}

function feedForwardOf(
  model: TransformerConfiguration &
    BlockVariants &
    Pick<ExpertVariants, 'quickGeglu' | 'gluLinearOffset' | 'activationFuncClampValue'>,
  sizes: Omit<FeedForwardSpecification, 'kind'>,
): FeedForwardSpecification {
  const { swiglu = false, squaredRelu = false, quickGeglu = false, geluKind } = model;
  const { gluLinearOffset: linearOffset, activationFuncClampValue: clamp } = model;
  if (quickGeglu || (swiglu && (linearOffset !== undefined || clamp !== undefined))) {
    const gate = quickGeglu ? 'clampedQuickGeglu' : 'swiglu';
    const specification: FeedForwardSpecification & ClampedGluSpecification = {
      kind: 'clamped-glu',
      ...sizes,
      gate,
      ...(clamp !== undefined && { clamp }),
      ...(linearOffset !== undefined && { linearOffset }),
    };
    return specification;
  }
  if (swiglu) return { kind: 'swiglu', ...sizes };
  if (squaredRelu) return { kind: 'squared-relu', ...sizes };
  const specification: GeluFeedForwardSpecification = { kind: 'gelu', ...sizes, geluKind };
  return specification;
}
