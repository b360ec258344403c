import { matmul, sumRows, Tensor } from '@mtl/kernels';
import type { Exchange, PendingTensor, ProductExchanges } from '../exchange.js';
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
  /** For layers that are spread over processes (@mtl/tensor-parallel). */
  readonly exchanges?: ProductExchanges | undefined;
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
 * itself, in float32 whatever the compute dtype. What backward exchanges is under way while the other product is computed.
 */
export function linear(tape: Tape, options: LinearOptions): Variable {
  const { input, weight, bias, exchanges = {} } = options;
  const result = tape.result(forward(options), { requiresGradient: true });
  tape.record(result, () => {
    const savedInput = tape.save(input);
    return {
      name: `linear ${weight.name}`,
      inputs: [input],
      parameters: bias === undefined ? [weight] : [weight, bias],
      saved: [savedInput],
      backward: ({ parts, outputGradient }) => {
        const gathered = exchanges.gatherOutputGradient?.(outputGradient!).wait();
        const gradient = gathered ?? outputGradient!;
        const wholeInput = parts.weight ? exchanges.gatherInput?.(savedInput.tensor) : undefined;
        let inputGradient: PendingTensor | undefined;
        if (parts.input && input.requiresGradient) {
          inputGradient = exchanged(exchanges.reduceInputGradient, inputGradientOf(weight, gradient));
        }
        if (parts.weight) {
          const whole = wholeInput?.wait();
          addWeightGradient(weight, gradient, whole ?? savedInput.tensor);
          whole?.dispose();
          if (bias !== undefined) addBiasGradient(bias, gradient);
        }
        gathered?.dispose();
        return [inputGradient?.wait()];
      },
    };
  });
  return result;
}

function forward({ input, weight, bias, exchanges = {} }: LinearOptions): Tensor {
  const numOutputs = weight.size / weight.shape.at(-1)!;
  const { dtype, device } = input.tensor;
  const whole = exchanges.gatherInput?.(input.tensor).wait();
  const left = whole ?? input.tensor;
  const output = Tensor.empty({ shape: [...left.shape.slice(0, -1), numOutputs], dtype, device });
  withMatrix(weight.data, (right) => {
    const product = { output, left, right, transposeRight: true };
    if (bias === undefined) matmul(product);
    else withShape(bias.data, [numOutputs], (row) => matmul({ ...product, bias: row }));
  });
  whole?.dispose();
  return exchanged(exchanges.reduceOutput, output).wait();
}

/** outputGradient [..., O] weight: [..., I]. */
function inputGradientOf(weight: Parameter, outputGradient: Tensor): Tensor {
  const { dtype, device, shape } = outputGradient;
  const output = Tensor.empty({ shape: [...shape.slice(0, -1), weight.shape.at(-1)!], dtype, device });
  withMatrix(weight.data, (right) => matmul({ output, left: outputGradient, right }));
  return output;
}

/** Gives a tensor to an exchange and takes what comes of it; the tensor itself where there is none. */
function exchanged(exchange: Exchange | undefined, tensor: Tensor): PendingTensor {
  if (exchange === undefined) return { wait: () => tensor };
  const pending = exchange(tensor);
  tensor.dispose();
  return pending;
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
