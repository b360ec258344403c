import type { BlockSpecification, ExpertsSpecification } from '@mtl/models';
import { int } from '../graph/attributes.js';
import type { Value } from '../graph/graph-builder.js';
import type { WeightTensor } from '../storage/model-weights.js';
import { describeExpertActivation, describeSharedNetwork } from './activations.js';
import { inFloat32, type ModelGraph, type NamedFeedForward, takeFloats } from './layer-scope.js';
import { routeTokens } from './routing.js';

// E is the number of experts, k the number of experts per token, N the number of rows, H the hidden size, and
// F the width of an expert

type FeedForward = BlockSpecification['feedForward'];

/** A layer's mixture of experts. `applyShared` applies the network of its shared experts. */
interface ExpertsCall extends NamedFeedForward {
  readonly specification: ExpertsSpecification;
  applyShared(model: ModelGraph, input: Value, network: NamedFeedForward): Value;
}

/**
 * Applies a mixture of experts to [N, H]. The operators `MoE` and `QMoE` compute only the chosen experts of
 * each row. No row is dropped, because experts have a limited capacity only in training.
 *
 * @throws CheckpointError MTL_ONNX_ARCHITECTURE for an activation that the operators lack
 */
export function applyExperts(model: ModelGraph, input: Value, call: ExpertsCall): Value {
  const { name, hiddenSize, specification } = call;
  const { numExperts, topK, ffnHiddenSize, bias, activation } = specification;
  const { graph, weights, storage } = model;
  const take = (layer: string, shape: readonly number[]) => ({
    weight: weights.take(`${name}.experts.${layer}.weight`, shape),
    bias: bias ? weights.take(`${name}.experts.${layer}.bias`, shape.slice(0, -1)) : undefined,
  });
  const { attributes, isGated } = describeExpertActivation(activation);
  const up = take('linear_fc1', [numExperts, (isGated ? 2 : 1) * ffnHiddenSize, hiddenSize]);
  const first = isGated ? { weight: takeTurns(up.weight), bias: up.bias && takeTurns(up.bias) } : up;
  const second = take('linear_fc2', [numExperts, hiddenSize, ffnHiddenSize]);
  const { logits, factor } = routeTokens(model, input, call);
  const sums = storage.experts(graph, input, { logits, topK, activation: attributes, first, second });
  const routed = factor === undefined ? sums : graph.op('Mul', [sums, factor]);
  const { shared } = specification;
  return shared === undefined ? routed : graph.op('Add', [routed, applySharedExperts(model, input, call)]);
}

/**
 * Reorders a parameter whose second dimension consists of F gates followed by F values, so that gates and
 * values alternate. Needs memory for twice the parameters of one expert.
 */
function takeTurns(tensor: WeightTensor): WeightTensor {
  const [, width, rowLength = 1] = tensor.shape as [number, number, number?];
  const half = (width / 2) * rowLength;
  return {
    ...tensor,
    read: async function* () {
      const expert = new Float32Array(2 * half);
      const turned = new Float32Array(2 * half);
      let filled = 0;
      for await (const values of tensor.read(rowLength)) {
        for (let start = 0; start < values.length; ) {
          const count = Math.min(values.length - start, expert.length - filled);
          expert.set(values.subarray(start, start + count), filled);
          start += count;
          filled += count;
          if (filled < expert.length) continue;
          for (let from = 0; from < half; from += rowLength) {
            turned.set(expert.subarray(from, from + rowLength), 2 * from);
            turned.set(expert.subarray(half + from, half + from + rowLength), 2 * from + rowLength);
          }
          yield turned;
          filled = 0;
        }
      }
    },
  };
}

/** Returns the output [N, H] of the shared experts, which every token uses. */
function applySharedExperts(model: ModelGraph, input: Value, call: ExpertsCall): Value {
  const { name, hiddenSize, specification, applyShared } = call;
  const { activation, bias, shared } = specification;
  const { graph } = model;
  const { ffnHiddenSize, gate } = shared!;
  const network = { ...describeSharedNetwork(activation), ffnHiddenSize, bias } as FeedForward;
  const output = applyShared(model, input, {
    name: `${name}.shared_experts`,
    hiddenSize,
    specification: network,
  });
  if (!gate) return output;
  const weight = takeFloats(model, { name: `${name}.shared_experts.gate_weight`, shape: [1, hiddenSize] });
  const opened = inFloat32(model, input, (value) =>
    graph.op('Sigmoid', [graph.op('Gemm', [value, weight], { attributes: { transB: int(1) } })]),
  );
  return graph.op('Mul', [output, opened]);
}
