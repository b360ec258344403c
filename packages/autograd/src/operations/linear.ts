import { matmul, sumRows, Tensor } from '@mtl/kernels';
import type { Parameter } from '../parameter.js';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

export interface LinearOptions {
  /** [..., I] */
  readonly input: Variable;
  /** [O, I] (or more dimensions that fold to it) */
  readonly weight: Parameter;
  /** [O] (or more dimensions that fold to it) */
  readonly bias?: Parameter | undefined;
}

/** The size of the output features: all dimensions of the weight but the last. */
function matrixOf(tensor: Tensor): Tensor {
  return tensor.reshape([tensor.size / tensor.dim(-1), tensor.dim(-1)]);
}

/** Runs `body` with temporary views and disposes of them. */
function withViews<T>(views: readonly Tensor[], body: () => T): T {
  try {
    return body();
  } finally {
    for (const view of views) view.dispose();
  }
}

/**
 * output [..., O] = input weight^T + bias. The weight gradient is added to the main gradient by the matrix product
 * itself, in float32 whatever the compute dtype.
 */
export function linear(tape: Tape, { input, weight, bias }: LinearOptions): Variable {
  const numOutputs = weight.size / weight.shape.at(-1)!;
  const { dtype, device } = input.tensor;
  const output = Tensor.empty({ shape: [...input.tensor.shape.slice(0, -1), numOutputs], dtype, device });
  const weightMatrix = matrixOf(weight.data);
  const biasRow = bias?.data.reshape([numOutputs]);
  withViews(biasRow === undefined ? [weightMatrix] : [weightMatrix, biasRow], () =>
    matmul({ output, left: input.tensor, right: weightMatrix, bias: biasRow, transposeRight: true }),
  );
  const result = tape.result(output, { requiresGradient: true });
  const inputShape = input.tensor.shape;
  tape.record(result, () => {
    const savedInput = tape.save(input);
    return {
      name: `linear ${weight.name}`,
      inputs: [input],
      parameters: bias === undefined ? [weight] : [weight, bias],
      saved: [savedInput],
      backward: ({ parts, outputGradient }) => {
        let inputGradient: Tensor | undefined;
        if (parts.input && input.requiresGradient) {
          inputGradient = Tensor.empty({ shape: inputShape, dtype, device });
          const right = matrixOf(weight.data);
          withViews([right], () => matmul({ output: inputGradient!, left: outputGradient!, right }));
        }
        if (parts.weight) {
          addWeightGradient(weight, outputGradient!, savedInput.tensor);
          if (bias !== undefined) addBiasGradient(bias, outputGradient!);
        }
        return [inputGradient];
      },
    };
  });
  return result;
}

/** mainGradient [O, I] += outputGradient^T input, summed over all leading dimensions. */
export function addWeightGradient(weight: Parameter, outputGradient: Tensor, input: Tensor): void {
  const gradient = matrixOf(weight.mainGradient);
  withViews([gradient], () =>
    matmul({ output: gradient, left: outputGradient, right: input, transposeLeft: true, accumulate: true }),
  );
}

/** mainGradient [O] += column sums of outputGradient. */
export function addBiasGradient(bias: Parameter, outputGradient: Tensor): void {
  const gradient = bias.mainGradient.reshape([bias.size]);
  withViews([gradient], () => sumRows({ output: gradient, input: outputGradient, accumulate: true }));
}
