import { checkedOperation, combineRows, permuteRows as permute, Tensor } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';
import type { RowGrouping } from './group-by-expert.js';

export interface PermuteRowsOptions {
  /** `[..., H]` of T rows */
  readonly input: Variable;
  readonly grouping: RowGrouping;
}

/**
 * The rows of each expert together, [R, 1, H]: a row is there once for each of its slots; rows behind the
 * last are zeros.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for a grouping of
 *   other rows
 */
export const permuteRows = checkedOperation(
  'permuteRows',
  (tape: Tape, { input, grouping: { positions, sources } }: PermuteRowsOptions): Variable => {
    const { dtype, device, shape } = input.tensor;
    const topK = positions.tensor.dim(-1);
    const compute = (): Tensor => {
      const rows = [sources.tensor.size, 1, input.tensor.dim(-1)];
      const output = Tensor.empty({ shape: rows, dtype, device });
      try {
        permute({ output, input: input.tensor, sources: sources.tensor, topK });
      } catch (error) {
        output.dispose();
        throw error;
      }
      return output;
    };
    const result = tape.result(compute(), {
      requiresGradient: input.requiresGradient,
      recipe: { dependencies: [input, sources], compute },
    });
    tape.record(result, () => {
      const savedPositions = tape.save(positions);
      return {
        name: 'permuteRows',
        inputs: [input],
        parameters: [],
        saved: [savedPositions],
        backward: ({ outputGradient }) => {
          const inputGradient = Tensor.empty({ shape, dtype, device });
          combineRows({
            output: inputGradient,
            rows: outputGradient!,
            positions: savedPositions.tensor,
          });
          return [inputGradient];
        },
      };
    });
    return result;
  },
);
