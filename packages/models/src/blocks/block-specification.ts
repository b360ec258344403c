import { ConfigurationError } from '@mtl/errors';
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

/** What each layer of a model is built from, by its global index. */
export type BlockOfLayer = (layer: number) => BlockSpecification;

/**
 * One specification for all layers, or one for each.
 *
 * @throws ConfigurationError `MTL_BLOCK_KIND` for layers that do not fit together: of other hidden sizes, or
 *   with norms in other places
 */
export function blockOfLayer(
  block: BlockSpecification | BlockOfLayer,
  { numLayers }: { readonly numLayers: number },
): BlockOfLayer {
  if (typeof block !== 'function') return () => block;
  const all = Array.from({ length: numLayers }, (_, layer) => block(layer));
  const [first] = all;
  for (const [layer, { hiddenSize, normPlacement }] of all.entries()) {
    if (hiddenSize === first!.hiddenSize && normPlacement === first!.normPlacement) continue;
    throw new ConfigurationError(
      'MTL_BLOCK_KIND',
      `layer ${layer} has a hidden size of ${hiddenSize} and norms placed '${normPlacement}'`,
      { expected: `${first!.hiddenSize} and '${first!.normPlacement}', as in layer 0` },
    );
  }
  return (layer) => all[layer]!;
}
