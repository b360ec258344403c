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

/** Runs `body` with `tensor` in another shape: itself where it has that rank already, else a temporary view. */
function withShape(tensor: Tensor, shape: readonly number[], body: (shaped: Tensor) => void): void {
  if (tensor.shape.length === shape.length) {
    body(tensor);
    return;
  }
  const view = tensor.reshape(shape);
  try {
    body(view);
  } finally {
    view.dispose();
  }
}

/** Runs `body` with [O, I]: all dimensions but the last are output features. */
function withMatrix(tensor: Tensor, body: (matrix: Tensor) => void): void {
  const inputs = tensor.dim(-1);
  withShape(tensor, [tensor.size / inputs, inputs], body);
}

/**
 * output [..., O] = input weight^T + bias. The weight gradient is added to the main gradient by the matrix product
 * itself, in float32 whatever the compute dtype.
 */
export function linear(tape: Tape, { input, weight, bias }: LinearOptions): Variable {
  const numOutputs = weight.size / weight.shape.at(-1)!;
  const { dtype, device } = input.tensor;
  const output = Tensor.empty({ shape: [...input.tensor.shape.slice(0, -1), numOutputs], dtype, device });
  withMatrix(weight.data, (right) => {
    const product = { output, left: input.tensor, right, transposeRight: true };
    if (bias === undefined) matmul(product);
    else withShape(bias.data, [numOutputs], (row) => matmul({ ...product, bias: row }));
  });
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
          const output = Tensor.empty({ shape: inputShape, dtype, device });
          withMatrix(weight.data, (right) => matmul({ output, left: outputGradient!, right }));
          inputGradient = output;
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
  withMatrix(weight.mainGradient, (output) =>
    matmul({ output, left: outputGradient, right: input, transposeLeft: true, accumulate: true }),
  );
}

/** mainGradient [O] += column sums of outputGradient. */
export function addBiasGradient(bias: Parameter, outputGradient: Tensor): void {
  withShape(bias.mainGradient, [bias.size], (output) =>
    sumRows({ output, input: outputGradient, accumulate: true }),
  );
}
