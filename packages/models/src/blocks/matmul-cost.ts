import type { Parameter } from '@mtl/autograd';
import { countElements } from '@mtl/kernels';

/**
 * The cost of the matmuls of layers, on all ranks together: FLOPs and the balance of a pipeline follow from
 * it.
 */
export interface MatmulCost {
  /** Elements of the weights that a token is multiplied with. */
  readonly weights: number;
  /**
   * Features of queries (A D). Each feature of a pair of positions takes two multiplications: for the score
   * of the pair and for its part of the output.
   */
  readonly attentionFeatures: number;
}

/**
 * Returns the cost of weights that every token is multiplied with: the parameters that consist of matrices.
 */
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

/** Returns the FLOPs of a token in the forward pass of a layer, on average, attention in full. */
export function flopsOfLayer(
  { weights, attentionFeatures }: MatmulCost,
  { numLayers, sequenceLength }: { readonly numLayers: number; readonly sequenceLength: number },
): number {
  return (2 * weights + 4 * sequenceLength * attentionFeatures) / numLayers;
}
