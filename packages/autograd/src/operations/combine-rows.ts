import { checkedOperation, combineRows as combine, permuteRows, Tensor } from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';
import type { RowGrouping } from './group-by-expert.js';

export interface CombineRowsOptions {
  /** `[..., H]` of R rows */
  readonly rows: Variable;
  readonly grouping: RowGrouping;
  /** The shape of the output: T rows of H elements. Default [T, 1, H]. */
  readonly shape?: readonly number[] | undefined;
}

/**
 * For each row the sum of what is in the places of its slots, in the order of the slots and in float32;
 * dropped slots add nothing.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for a grouping of
 *   other rows
 */
export const combineRows = checkedOperation(
  'combineRows',
  (tape: Tape, options: CombineRowsOptions): Variable => {
    const {
      rows,
      grouping: { positions, sources },
    } = options;
    const { dtype, device, shape: rowsShape } = rows.tensor;
    const [numRows, topK] = [positions.tensor.dim(0), positions.tensor.dim(-1)];
    const { shape = [numRows, 1, rows.tensor.dim(-1)] } = options;
    const output = Tensor.empty({ shape, dtype, device });
    try {
      combine({ output, rows: rows.tensor, positions: positions.tensor });
    } catch (error) {
      output.dispose();
      throw error;
    }
    const result = tape.result(output, { requiresGradient: rows.requiresGradient });
    tape.record(result, () => {
      const savedSources = tape.save(sources);
      return {
        name: 'combineRows',
        inputs: [rows],
        parameters: [],
        saved: [savedSources],
        backward: ({ outputGradient }) => {
          const rowsGradient = Tensor.empty({ shape: rowsShape, dtype, device });
          permuteRows({
            output: rowsGradient,
            input: outputGradient!,
            sources: savedSources.tensor,
            topK,
          });
          return [rowsGradient];
        },
      };
    });
    return result;
  },
);
