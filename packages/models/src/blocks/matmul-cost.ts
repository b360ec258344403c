import type { Parameter } from '@mtl/autograd';
import { countElements } from '@mtl/kernels';

/**
 * The cost of the matmuls in layers, summed over all ranks. It determines the FLOP count and the balance of
 * pipeline stages.
 */
export interface MatmulCost {
  /** The number of weight elements that each token is multiplied by. */
  readonly weights: number;
  /**
   * The number of query features, A D. Each feature takes two multiplications for a pair of positions: one
   * for the score and one for the output.
   */
  readonly attentionFeatures: number;
}

/** Returns the cost of weights that multiply every token: the parameters that are matrices. */
export function costOfWeights(parameters: readonly Parameter[]): MatmulCost {
  const weights = parameters
    .filter(({ matrices }) => matrices.length > 0)
    .reduce((sum, { globalShape }) => sum + countElements(globalShape), 0);
  return { weights, attentionFeatures: 0 };
}

export function sumOfCosts(costs: readonly MatmulCost[]): MatmulCost {
  return {
    weights: costs.reduce((sum, { weights }) => sum + weights, 0),
    attentionFeatures: costs.reduce((sum, { attentionFeatures }) => sum + attentionFeatures, 0),
  };
}

/**
 * Returns the FLOPs per token in the forward pass of an average layer. Attention counts all pairs of
 * positions.
 */
export function flopsOfLayer(
  { weights, attentionFeatures }: MatmulCost,
  { numLayers, sequenceLength }: { readonly numLayers: number; readonly sequenceLength: number },
): number {
  return (2 * weights + 4 * sequenceLength * attentionFeatures) / numLayers;
}
