import {
  type FeedForwardSpecification,
  GeluFeedForward,
  type GeluFeedForwardSpecification,
} from './gelu-feed-forward.js';
import { KindRegistry } from './kind-registry.js';
import { LayerNorm } from './layer-norm.js';
import type { Norm, NormOptions } from './norm.js';
import { type AttentionSpecification, SelfAttention } from './self-attention.js';
import type { Sublayer, SublayerOptions } from './sublayer.js';

/** Norms by kind: `layer-norm`, and those that are registered. */
export const norms = new KindRegistry<NormOptions, Norm>('norm', {
  'layer-norm': (options) => new LayerNorm(options),
});

/** Attentions by kind: `self-attention`, and those that are registered. */
export const attentions = new KindRegistry<SublayerOptions<AttentionSpecification>, Sublayer>('attention', {
  'self-attention': (options) => new SelfAttention(options),
});

/** Feed-forward networks by kind: `gelu`, and those that are registered. */
export const feedForwards = new KindRegistry<SublayerOptions<FeedForwardSpecification>, Sublayer>(
  'feed-forward network',
  {
    // specifications of this kind have its fields
    gelu: (options) => new GeluFeedForward(options as SublayerOptions<GeluFeedForwardSpecification>),
  },
);
