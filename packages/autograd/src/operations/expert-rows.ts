import {
  checkedOperation,
  combineRows as combine,
  groupByExpert as group,
  permuteRows as permute,
  Tensor,
} from '@mtl/kernels';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';

export interface GroupByExpertOptions {
  /**
   * int32 [T, k]: the expert of each slot, or -1 for a dropped slot. A slot is one of a row's k expert
   * assignments.
   */
  readonly experts: Variable;
  /** E */
  readonly numExperts: number;
}

/** Where each slot is after the slots have been sorted by expert. */
export interface RowGrouping {
  /** int32 [T, k]: the grouped row of each slot, or -1 if the slot was dropped */
  readonly positions: Variable;
  /**
   * int32 [R], `R = T * k`: the slot index `t * k + slot` of each grouped row; -1 after the last grouped row
   */
  readonly sources: Variable;
}

export interface ExpertGroups extends RowGrouping {
  /** int32 [E + 1]: expert e has the rows from `offsets[e]` up to, but not including, `offsets[e + 1]`. */
  readonly offsets: Variable;
}

/**
 * Sorts all slots by expert and returns the positions of each expert's rows. The rows of an expert keep their
 * order. The result has no gradient.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for an invalid
 *   expert
 */
export const groupByExpert = checkedOperation(
  'groupByExpert',
  (tape: Tape, { experts, numExperts }: GroupByExpertOptions): ExpertGroups => {
    const { offsets, positions, sources } = group({ experts: experts.tensor, numExperts });
    return {
      offsets: tape.result(offsets, { requiresGradient: false }),
      positions: tape.result(positions, { requiresGradient: false }),
      sources: tape.result(sources, { requiresGradient: false }),
    };
  },
);

export interface PermuteRowsOptions {
  /** `[..., H]` of T rows */
  readonly input: Variable;
  readonly grouping: RowGrouping;
}

/**
 * Copies rows so that the rows of each expert are contiguous, [R, 1, H]. A row appears once for each of its
 * slots. Rows after the last slot are zeros.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` if `grouping` was
 *   made for different rows
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
          combine({
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

export interface PermuteProbabilitiesOptions {
  /** `[T, k]`: the weight of each slot */
  readonly probabilities: Variable;
  readonly grouping: RowGrouping;
}

/** Calls `body` with a view of the tensor in the given shape. */
function withShape(tensor: Tensor, shape: readonly number[], body: (view: Tensor) => void): void {
  const view = tensor.reshape(shape);
  try {
    body(view);
  } finally {
    view.dispose();
  }
}

/**
 * Returns the weight of each grouped row, [R]; the weight after the last grouped row is 0. The weights serve
 * as factors of `expertActivation` and `groupedBias`.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` if `grouping` was
 *   made for different rows
 */
export const permuteProbabilities = checkedOperation(
  'permuteProbabilities',
  (tape: Tape, { probabilities, grouping }: PermuteProbabilitiesOptions): Variable => {
    const { dtype, device, shape, size } = probabilities.tensor;
    /**
     * Permutes single values with the kernel that permutes rows, by passing each value as a row with one
     * element and one slot.
     */
    const permuteValues = (output: Tensor, input: Tensor, sources: Tensor): void =>
      withShape(output, [output.size, 1], (rows) =>
        withShape(input, [input.size, 1], (slots) =>
          permute({ output: rows, input: slots, sources, topK: 1 }),
        ),
      );
    const output = Tensor.empty({ shape: [grouping.sources.tensor.size], dtype, device });
    try {
      permuteValues(output, probabilities.tensor, grouping.sources.tensor);
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
          // the gradient of a slot is the gradient of its row, permuted back
          withShape(savedPositions.tensor, [size], (positions) =>
            permuteValues(gradient, outputGradient!, positions),
          );
          return [gradient];
        },
      };
    });
    return result;
  },
);

export interface CombineRowsOptions {
  /** `[..., H]` of R rows */
  readonly rows: Variable;
  readonly grouping: RowGrouping;
  /** The shape of the output: T rows of H elements. Default: [T, 1, H]. */
  readonly shape?: readonly number[] | undefined;
}

/**
 * Adds up the grouped rows of each row's slots, in float32 and in the order of the slots. Dropped slots add
 * nothing.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` if `grouping` was
 *   made for different rows
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
          permute({
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
