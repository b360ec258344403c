import type { ExpertsSpecification } from '../experts/experts-specification.js';
import { MixtureOfExperts } from '../experts/mixture-of-experts.js';
import { ActivatedFeedForward, type FeedForwardSpecification } from './activated-feed-forward.js';
import {
  type ClampedGluSpecification,
  clampedGluActivation,
  geluActivation,
  squaredReluActivation,
  swigluActivation,
} from './feed-forward-activation.js';
import type { GeluFeedForwardSpecification } from './gelu-feed-forward-specification.js';
import { KindRegistry } from './kind-registry.js';
import { LayerNorm } from './layer-norm.js';
import type { Norm, NormOptions } from './norm.js';
import { RmsNorm } from './rms-norm.js';
import { type AttentionSpecification, SelfAttention } from './self-attention.js';
import type { Sublayer, SublayerOptions } from './sublayer.js';

/** Norms by kind: `layer-norm`, `rms-norm`, and those that are registered. */
export const norms = new KindRegistry<NormOptions, Norm>('norm', {
  'layer-norm': (options) => new LayerNorm(options),
  'rms-norm': (options) => new RmsNorm(options),
});

/** Attentions by kind: `self-attention`, and those that are registered. */
export const attentions = new KindRegistry<SublayerOptions<AttentionSpecification>, Sublayer>('attention', {
  'self-attention': (options) => new SelfAttention(options),
});

/** Feed-forward networks by kind: `gelu`, `swiglu`, `squared-relu`, `clamped-glu`, `mixture-of-experts`,
 * and those that are registered. */
export const feedForwards = new KindRegistry<SublayerOptions<FeedForwardSpecification>, Sublayer>(
  'feed-forward network',
  {
    gelu: (options) => {
      // specifications of this kind have its fields
      const { geluKind } = options.specification as GeluFeedForwardSpecification;
      return new ActivatedFeedForward(options, geluActivation(geluKind));
    },
    swiglu: (options) => new ActivatedFeedForward(options, swigluActivation),
    'squared-relu': (options) => new ActivatedFeedForward(options, squaredReluActivation),
    'clamped-glu': (options) =>
      new ActivatedFeedForward(
        options,
        clampedGluActivation(options.specification as FeedForwardSpecification & ClampedGluSpecification),
      ),
    'mixture-of-experts': (options) => new MixtureOfExperts(options as SublayerOptions<ExpertsSpecification>),
  },
);
