import type { Parameter } from '@mtl/autograd';
import { countElements } from '@mtl/kernels';

/**
 * The cost of the layers' matmuls, summed over all ranks. The FLOP count and the balance of pipeline stages
 * are computed from it.
 */
export interface MatmulCost {
  /** The number of weight elements by which each token is multiplied. */
  readonly weights: number;
  /**
   * The number of query features, `A * D`. For each pair of positions, each feature takes two
   * multiplications: one for the score and one for the output.
   */
  readonly attentionFeatures: number;
}

/** Returns the cost of the weights by which every token is multiplied: all parameters that are matrices. */
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

/** Returns the forward FLOPs per token of an average layer. Attention counts all pairs of positions. */
export function flopsOfLayer(
  { weights, attentionFeatures }: MatmulCost,
  { numLayers, sequenceLength }: { readonly numLayers: number; readonly sequenceLength: number },
): number {
  return (2 * weights + 4 * sequenceLength * attentionFeatures) / numLayers;
}
