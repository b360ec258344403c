import { checkedOperation, type RouterScoreOptions, routerBackward, routerForward } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

export interface RouteOptions extends RouterScoreOptions {
  /** `[..., E]` float32 (float64), T rows */
  readonly logits: Variable;
  /** [E] float32: added to the scores that select, not to probabilities. No gradient flows to it. */
  readonly expertBias?: Variable | undefined;
  /** How many experts a row has: k. */
  readonly topK: number;
  /** Groups of as many experts each, of which a row uses `groupTopK`. Default 0: none. */
  readonly numGroups?: number | undefined;
  readonly groupTopK?: number | undefined;
  /**
   * `[T, k]` int32: these experts in place of a selection, such as those of a first pass in its
   * recomputation.
   */
  readonly experts?: Variable | undefined;
}

/** The choice of a router. */
export interface Routing {
  /** `[T, k]`, of the dtype of the logits */
  readonly probabilities: Variable;
  /** `[T, k]` int32, without a gradient; a tensor of its own also where `experts` were given */
  readonly experts: Variable;
}

/**
 * The k experts of each row and their weights; the gradient of the logits is that of the weights.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit, `MTL_INDEX`
 *   for an expert that is none
 */
export const route = checkedOperation('route', (tape: Tape, options: RouteOptions): Routing => {
  const { logits, expertBias, topK, numGroups, groupTopK, experts: chosen } = options;
  const { scoreFunction, preSoftmax, scalingFactor } = options;
  const scores = { scoreFunction, preSoftmax, scalingFactor };
  const outputs = routerForward({
    logits: logits.tensor,
    expertBias: expertBias?.tensor,
    chosen: chosen?.tensor,
    topK,
    numGroups,
    groupTopK,
    ...scores,
  });
  const probabilities = tape.result(outputs.probabilities, { requiresGradient: logits.requiresGradient });
  const experts = tape.result(outputs.experts, { requiresGradient: false });
  tape.record(probabilities, () => {
    const [savedLogits, savedExperts] = [tape.save(logits), tape.save(experts)];
    return {
      name: 'route',
      inputs: [logits],
      parameters: [],
      saved: [savedLogits, savedExperts],
      backward: ({ outputGradient }) => [
        routerBackward({
          probabilitiesGradient: outputGradient!,
          logits: savedLogits.tensor,
          experts: savedExperts.tensor,
          ...scores,
        }),
      ],
    };
  });
  return { probabilities, experts };
});
