import { matmul, sumRows, Tensor } from '@mtl/kernels';
import { type PendingTensor, type ProductExchanges, startExchange } from '../exchange.js';
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
        const gradient = startExchange(exchanges.gatherOutputGradient, outputGradient!).wait();
        const wholeInput = parts.weight ? startExchange(exchanges.gatherInput, savedInput.tensor) : undefined;
        let inputGradient: PendingTensor | undefined;
        if (parts.input && input.requiresGradient) {
          const product = inputGradientOf(weight, gradient);
          inputGradient = startExchange(exchanges.reduceInputGradient, product);
          product.dispose();
        }
        if (wholeInput !== undefined) {
          const whole = wholeInput.wait();
          addWeightGradient(weight, gradient, whole);
          whole.dispose();
          if (bias !== undefined) addBiasGradient(bias, gradient);
        }
        gradient.dispose();
        return [inputGradient?.wait()];
      },
    };
  });
  return result;
}

function forward({ input, weight, bias, exchanges }: LinearOptions): Tensor {
  const numOutputs = weight.size / weight.shape.at(-1)!;
  const { dtype, device } = input.tensor;
  const whole = startExchange(exchanges?.gatherInput, input.tensor).wait();
  const product = Tensor.empty({ shape: [...whole.shape.slice(0, -1), numOutputs], dtype, device });
  const weightMatrix = matrixOf(weight.data);
  const biasRow = bias?.data.reshape([numOutputs]);
  withViews([whole, weightMatrix, ...(biasRow === undefined ? [] : [biasRow])], () =>
    matmul({ output: product, left: whole, right: weightMatrix, bias: biasRow, transposeRight: true }),
  );
  const output = startExchange(exchanges?.reduceOutput, product);
  product.dispose();
  return output.wait();
}

/** outputGradient [..., O] weight: [..., I]. */
function inputGradientOf(weight: Parameter, outputGradient: Tensor): Tensor {
  const { dtype, device, shape } = outputGradient;
  const product = Tensor.empty({ shape: [...shape.slice(0, -1), weight.shape.at(-1)!], dtype, device });
  const right = matrixOf(weight.data);
  withViews([right], () => matmul({ output: product, left: outputGradient, right }));
  return product;
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
