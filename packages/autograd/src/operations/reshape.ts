import { checkedOperation } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

/** Returns the input's values in the given shape, which must have the same number of elements. */
export const reshape = checkedOperation(
  'reshape',
  (
    tape: Tape,
    { input, shape }: { readonly input: Variable; readonly shape: readonly number[] },
  ): Variable => {
    const before = input.tensor.shape;
    const result = tape.result(input.tensor.reshape(shape), { requiresGradient: input.requiresGradient });
    tape.record(result, () => ({
      name: 'reshape',
      inputs: [input],
      parameters: [],
      saved: [],
      backward: ({ outputGradient }) => [outputGradient!.reshape(before)],
    }));
    return result;
  },
);
