import { biasSquaredReluBackward, biasSquaredReluForward, checkedOperation, Tensor } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

/**
 * max(input, 0)^2, [..., F]. The bias before it belongs to the matmul. Its output is computed again in
 * backward rather than kept, where the tape rematerializes.
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
