import { cast, checkedOperation, embeddingBackward, embeddingForward, Tensor } from '@mtl/kernels';
import { type MatmulCollectives, startCollective } from '../collective.js';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

export interface GatherRowsOptions {
  /** [S, B, H] */
  readonly input: Variable;
  /** int32 [M]: flat indices into [S, B] of the complete sequence. An index may occur several times */
  readonly indices: Variable;
  /** The global flat index of the input's first row, if the sequence is sharded. Default: 0. */
  readonly firstRow?: number;
  /**
   * How many rows all processes have together, if the sequence is sharded. Default: the input's number of
   * rows.
   */
  readonly numRows?: number | undefined;
  /**
   * Starts the collective that sums the output over processes, if the sequence is sharded. Each process
   * contributes its own rows, and zeros for the rows of other processes.
   */
  readonly reduceOutput?: MatmulCollectives['reduceOutput'];
}

/**
 * Returns selected rows of activations, [M, 1, H], for operations that need only these rows, such as masked
 * positions or the first token. If the sequence is sharded, every process gets all selected rows. In
 * backward, each process keeps the gradients of its own rows.
 *
 * @throws KernelError `MTL_INDEX` for an index that is not a row
 */
export const gatherRows = checkedOperation(
  'gatherRows',
  (tape: Tape, options: GatherRowsOptions): Variable => {
    const { input, indices, firstRow = 0, numRows } = options;
    const { dtype, device, shape } = input.tensor;
    const hidden = input.tensor.dim(-1);
    const matrix = [input.tensor.size / hidden, hidden];
    const rows = Tensor.empty({ shape: [indices.tensor.size, 1, hidden], dtype, device });
    const table = input.tensor.reshape(matrix);
    try {
      embeddingForward({ output: rows, ids: indices.tensor, table, firstRow, numRows });
    } catch (error) {
      rows.dispose();
      throw error;
    } finally {
      table.dispose();
    }
    const reduced = startCollective(options.reduceOutput, rows);
    rows.dispose();
    const result = tape.result(reduced.wait(), { requiresGradient: input.requiresGradient });
    tape.record(result, () => {
      const savedIndices = tape.save(indices);
      return {
        name: 'gatherRows',
        inputs: [input],
        parameters: [],
        saved: [savedIndices],
        backward: ({ outputGradient }) => {
          // the gradients of rows that were selected several times are summed in float32, like all sums of
          // gradients
          const sums = Tensor.zeros({
            shape: matrix,
            dtype: dtype === 'float64' ? dtype : 'float32',
            device,
          });
          const ids = savedIndices.tensor;
          embeddingBackward({
            tableGradient: sums,
            outputGradient: outputGradient!,
            ids,
            firstRow,
            numRows,
          });
          if (dtype === sums.dtype) {
            const inputGradient = sums.reshape(shape);
            sums.dispose();
            return [inputGradient];
          }
          const inputGradient = Tensor.empty({ shape, dtype, device });
          cast({ output: inputGradient, input: sums });
          sums.dispose();
          return [inputGradient];
        },
      };
    });
    return result;
  },
);
