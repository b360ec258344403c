import { type DType, Tensor } from '../../src/index.js';
import { type AttentionCase, countScores, listShapes, projectedSpecs } from '../support/attention-case.js';
import { inputSpecs, resultSpecs, runBackward, runForward } from '../support/attention-run.js';
import type { GradientCase, OpCase, TensorSpec } from './op-case.js';
import { attentionTolerances } from './tolerances.js';

/** Returns the common part of all cases of one direction. */
function makeCase(one: AttentionCase, direction: 'forward' | 'backward') {
  const { name, dtypes, isOnlyForCuda, isOnlyForHost } = one;
  const { query, value } = listShapes(one);
  const operation = `attention_${direction}`;
  return {
    name: `${operation} ${name} [${query}] [${value}]`,
    operation,
    tolerance: attentionTolerances[direction],
    ...(dtypes && { dtypes }),
    ...(isOnlyForCuda && { isOnlyForCuda }),
    ...(isOnlyForHost && { isOnlyForHost }),
  };
}

function forwardCase(one: AttentionCase): OpCase {
  return {
    ...makeCase(one, 'forward'),
    tensors: { ...resultSpecs(one), ...inputSpecs(one) },
    run: (tensors) => runForward(one, tensors),
  };
}

function backwardCase(one: AttentionCase): OpCase {
  const { output, logSumExp } = listShapes(one);
  return {
    ...makeCase(one, 'backward'),
    tensors: { ...projectedSpecs(one, 'Gradient'), outputGradient: { shape: output }, ...inputSpecs(one) },
    run: (tensors) => {
      const { device, dtype } = tensors.outputGradient!;
      // the results of the forward pass of the same device
      const results = (shape: readonly number[], of: DType) => Tensor.empty({ shape, dtype: of, device });
      using of = results(output, one.isExact ? 'float32' : dtype);
      using statistics = results(logSumExp, 'float32');
      const all = { ...tensors, output: of, logSumExp: statistics };
      runForward(one, all);
      runBackward(one, all);
    },
  };
}

/** Returns the cases of both directions. */
export function directionCases(all: readonly AttentionCase[]): OpCase[] {
  return [...all.map(forwardCase), ...all.map(backwardCase)];
}

/** Returns both directions as benchmarks; FLOPs leave out the half above the diagonal. */
export function benchmarkCases(one: AttentionCase): OpCase[] {
  const [forward, backward] = [forwardCase(one), backwardCase(one)];
  const { output, logSumExp } = resultSpecs(one);
  const { heads, headSize, valueSize = headSize, causal } = one;
  const flops = 2 * heads * (headSize + valueSize) * countScores(one) * (causal ? 0.5 : 1);
  // substitutes for the results of the forward pass: time does not depend on values
  const statistics: TensorSpec = { ...logSumExp, output: false, values: () => 6 };
  return [
    { ...forward, benchmark: { flops } },
    {
      ...backward,
      tensors: { ...backward.tensors, output: { shape: output.shape }, logSumExp: statistics },
      run: (tensors) => runBackward(one, tensors),
      benchmark: { flops: 2 * flops },
    },
  ];
}

export function gradientCase(one: AttentionCase): GradientCase {
  const { output, logSumExp } = listShapes(one);
  const differentiable = Object.keys(projectedSpecs(one));
  return {
    name: `attention ${one.name} [${listShapes(one).query}]`,
    tensors: { ...inputSpecs(one), logSumExp: { shape: logSumExp }, output: { shape: output } },
    differentiable,
    outputShape: output,
    forward: (tensors, to) => runForward(one, { ...tensors, output: to }),
    backward: (tensors, outputGradient, gradients) => {
      const named = differentiable.map((name) => [`${name}Gradient`, gradients[name]!]);
      const all = { ...tensors, outputGradient, ...Object.fromEntries(named) };
      runForward(one, all);
      runBackward(one, all);
    },
  };
}
