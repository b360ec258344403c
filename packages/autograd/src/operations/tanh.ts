import { checkedOperation, Tensor, tanhBackward, tanhForward } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

/** tanh(input), of any shape. */
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
