import { biasSwigluBackward, biasSwigluForward, checkedOperation, Tensor } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

/**
 * silu(gate) * up, [..., F], of an input [..., 2F]: F gates, then F values. The bias before it belongs to the
 * matmul. Its output is computed again in backward rather than kept, where the tape rematerializes.
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
