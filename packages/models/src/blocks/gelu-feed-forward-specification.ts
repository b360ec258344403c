import type { GeluKind } from '@mtl/kernels';
import type { FeedForwardSpecification } from './activated-feed-forward.js';

/** The fields of the kind `gelu`. */
export interface GeluFeedForwardSpecification extends FeedForwardSpecification {
  readonly geluKind: GeluKind;
}
