import type { FeedForwardSpecification } from './activated-feed-forward.js';
import type { NormSpecification } from './norm.js';
import type { AttentionSpecification } from './self-attention.js';
import type { BlockInitialization } from './sublayer.js';

/** The position of a norm: before each sublayer, or after its residual sum. */
export type LayerNormPlacement = 'pre' | 'post';

/** What the blocks of a model are built from. `norms`, `attentions` and `feedForwards` have the kinds. */
export interface BlockSpecification {
  /** H */
  readonly hiddenSize: number;
  readonly norm: NormSpecification;
  readonly normPlacement: LayerNormPlacement;
  readonly attention: AttentionSpecification;
  readonly feedForward: FeedForwardSpecification;
  /** Probability with which hidden states are dropped before they are added to the residual. */
  readonly hiddenDropout: number;
  readonly initialization: BlockInitialization;
}
