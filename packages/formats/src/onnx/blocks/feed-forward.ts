import type { ExpertsSpecification } from '@mtl/models';
import type { Value } from '../graph/graph-builder.js';
import { activations } from './activations.js';
import { applyExperts } from './experts.js';
import { applyLinear, type ModelGraph, type NamedFeedForward } from './layer-scope.js';
import { refuseKind } from './refusals.js';

/**
 * Applies a feed-forward network to [N, H].
 *
 * @throws CheckpointError MTL_ONNX_ARCHITECTURE for a kind of network that has no graph
 */
export function applyFeedForward(model: ModelGraph, input: Value, network: NamedFeedForward): Value {
  const { name, hiddenSize, specification } = network;
  const { kind, ffnHiddenSize, bias } = specification;
  if (kind === 'mixture-of-experts') {
    return applyExperts(model, input, {
      ...network,
      specification: specification as ExpertsSpecification,
      applyShared: applyFeedForward,
    });
  }
  const { numParts, apply } =
    activations[kind] ?? refuseKind('feed-forward network', kind, Object.keys(activations));
  const first = { name: `${name}.linear_fc1`, inputs: hiddenSize, outputs: numParts * ffnHiddenSize, bias };
  const second = { name: `${name}.linear_fc2`, inputs: ffnHiddenSize, outputs: hiddenSize, bias };
  return applyLinear(model, apply(model, applyLinear(model, input, first), specification), second);
}
