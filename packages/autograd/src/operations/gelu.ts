import { biasGeluBackward, biasGeluForward, checkedOperation, type GeluKind, Tensor } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

/**
 * gelu(input), [..., F]. The bias before it belongs to the matmul. Its output is computed again in backward
 * rather than kept, where the tape rematerializes.
 */
export const gelu = checkedOperation(
  'gelu',
  (tape: Tape, options: { readonly input: Variable; readonly kind: GeluKind }): Variable => {
    const { input, kind } = options;
    const { dtype, device, shape } = input.tensor;
    const output = Tensor.empty({ shape, dtype, device });
    biasGeluForward({ output, input: input.tensor, kind });
    return geluOf(tape, { ...options, output });
  },
);

/** Records a GELU output that is already computed on the tape. For authors of operations. */
export function geluOf(
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
