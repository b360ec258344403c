import { checkedOperation, permuteRows, Tensor } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';
import type { RowGrouping } from './group-by-expert.js';

export interface PermuteProbabilitiesOptions {
  /** `[T, k]`: the weight of each slot */
  readonly probabilities: Variable;
  readonly grouping: RowGrouping;
}

/** A view of a tensor with other dimensions, for the length of `body`. */
function withShape(tensor: Tensor, shape: readonly number[], body: (view: Tensor) => void): void {
  const view = tensor.reshape(shape);
  try {
    body(view);
  } finally {
    view.dispose();
  }
}

/**
 * The weight of each grouped row, [R]; 0 behind the last. What `expertActivation` and `groupedBias` multiply
 * by.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for a grouping of
 *   other rows
 */
export const permuteProbabilities = checkedOperation(
  'permuteProbabilities',
  (tape: Tape, { probabilities, grouping }: PermuteProbabilitiesOptions): Variable => {
    const { dtype, device, shape, size } = probabilities.tensor;
    /** Each slot is a row of one element, and the only slot of its row. */
    const permute = (output: Tensor, input: Tensor, sources: Tensor): void =>
      withShape(output, [output.size, 1], (rows) =>
        withShape(input, [input.size, 1], (slots) =>
          permuteRows({ output: rows, input: slots, sources, topK: 1 }),
        ),
      );
    const output = Tensor.empty({ shape: [grouping.sources.tensor.size], dtype, device });
    try {
      permute(output, probabilities.tensor, grouping.sources.tensor);
    } catch (error) {
      output.dispose();
      throw error;
    }
    const result = tape.result(output, { requiresGradient: probabilities.requiresGradient });
    tape.record(result, () => {
      const savedPositions = tape.save(grouping.positions);
      return {
        name: 'permuteProbabilities',
        inputs: [probabilities],
        parameters: [],
        saved: [savedPositions],
        backward: ({ outputGradient }) => {
          const gradient = Tensor.empty({ shape, dtype, device });
          // the gradient of a slot is that of its row: the permutation back
          withShape(savedPositions.tensor, [size], (positions) =>
            permute(gradient, outputGradient!, positions),
          );
          return [gradient];
        },
      };
    });
    return result;
  },
);
