import {
  biasGeluBackward,
  biasGeluForward,
  biasSquaredReluBackward,
  biasSquaredReluForward,
  biasSwigluBackward,
  biasSwigluForward,
  checkedOperation,
  type GeluKind,
  Tensor,
  tanhBackward,
  tanhForward,
} from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

/**
 * Computes `gelu(input)`, [..., F]. The preceding matmul has already added the bias. If the tape
 * rematerializes, backward computes the output again instead of keeping it.
 */
export const gelu = checkedOperation(
  'gelu',
  (tape: Tape, options: { readonly input: Variable; readonly kind: GeluKind }): Variable => {
    const { input, kind } = options;
    const { dtype, device, shape } = input.tensor;
    const output = Tensor.empty({ shape, dtype, device });
    biasGeluForward({ output, input: input.tensor, kind });
    return recordGelu(tape, { ...options, output });
  },
);

/** Records on the tape a GELU output that has already been computed. Meant for authors of operations. */
export function recordGelu(
  tape: Tape,
  options: { readonly input: Variable; readonly output: Tensor; readonly kind: GeluKind },
): Variable {
  const { input, kind } = options;
  const { dtype, device, shape } = input.tensor;
  const compute = (): Tensor => {
    const output = Tensor.empty({ shape, dtype, device });
    biasGeluForward({ output, input: input.tensor, kind });
    return output;
  };
  const result = tape.result(options.output, {
    requiresGradient: input.requiresGradient,
    recipe: { dependencies: [input], compute },
    activation: { input, kind },
  });
  tape.record(result, () => {
    const savedInput = tape.save(input);
    return {
      name: 'gelu',
      inputs: [input],
      parameters: [],
      saved: [savedInput],
      backward: ({ outputGradient }) => {
        const inputGradient = Tensor.empty({ shape, dtype, device });
        biasGeluBackward({ inputGradient, outputGradient: outputGradient!, input: savedInput.tensor, kind });
        return [inputGradient];
      },
    };
  });
  return result;
}

/**
 * Computes `max(input, 0)^2`, [..., F]. The preceding matmul has already added the bias. If the tape
 * rematerializes, backward computes the output again instead of keeping it.
 */
export const squaredRelu = checkedOperation(
  'squaredRelu',
  (tape: Tape, { input }: { readonly input: Variable }): Variable => {
    const { dtype, device, shape } = input.tensor;
    const compute = (): Tensor => {
      const output = Tensor.empty({ shape, dtype, device });
      biasSquaredReluForward({ output, input: input.tensor });
      return output;
    };
    const result = tape.result(compute(), {
      requiresGradient: input.requiresGradient,
      recipe: { dependencies: [input], compute },
      activation: { input, kind: 'squaredRelu' },
    });
    tape.record(result, () => {
      const savedInput = tape.save(input);
      return {
        name: 'squaredRelu',
        inputs: [input],
        parameters: [],
        saved: [savedInput],
        backward: ({ outputGradient }) => {
          const inputGradient = Tensor.empty({ shape, dtype, device });
          biasSquaredReluBackward({
            inputGradient,
            outputGradient: outputGradient!,
            input: savedInput.tensor,
          });
          return [inputGradient];
        },
      };
    });
    return result;
  },
);

/**
 * Computes `silu(gate) * value`, [..., F], for an input [..., 2F] of F gates, then F values. The preceding
 * matmul has already added the bias. If the tape rematerializes, backward computes the output again instead
 * of keeping it.
 *
 * @throws KernelError `MTL_SHAPE` for an input whose last dimension is odd
 */
export const swiglu = checkedOperation(
  'swiglu',
  (tape: Tape, { input }: { readonly input: Variable }): Variable => {
    const { dtype, device, shape } = input.tensor;
    const compute = (): Tensor => {
      const output = Tensor.empty({
        shape: [...shape.slice(0, -1), Math.floor(shape.at(-1)! / 2)],
        dtype,
        device,
      });
      biasSwigluForward({ output, input: input.tensor });
      return output;
    };
    const result = tape.result(compute(), {
      requiresGradient: input.requiresGradient,
      recipe: { dependencies: [input], compute },
    });
    tape.record(result, () => {
      const savedInput = tape.save(input);
      return {
        name: 'swiglu',
        inputs: [input],
        parameters: [],
        saved: [savedInput],
        backward: ({ outputGradient }) => {
          const inputGradient = Tensor.empty({ shape, dtype, device });
          biasSwigluBackward({
            inputGradient,
            outputGradient: outputGradient!,
            input: savedInput.tensor,
          });
          return [inputGradient];
        },
      };
    });
    return result;
  },
);

/** Computes tanh(input), of any shape. */
export const tanh = checkedOperation('tanh', (tape: Tape, input: Variable): Variable => {
  const { dtype, device, shape } = input.tensor;
  const output = Tensor.empty({ shape, dtype, device });
  tanhForward({ output, input: input.tensor });
  const result = tape.result(output, { requiresGradient: input.requiresGradient });
  tape.record(result, () => {
    const savedOutput = tape.save(result);
    return {
      name: 'tanh',
      inputs: [input],
      parameters: [],
      saved: [savedOutput],
      backward: ({ outputGradient }) => {
        const inputGradient = Tensor.empty({ shape, dtype, device });
        tanhBackward({ inputGradient, outputGradient: outputGradient!, output: savedOutput.tensor });
        return [inputGradient];
      },
    };
  });
  return result;
});
