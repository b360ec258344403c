import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface PermuteRowsOptions {
  /** `[..., H]` of R rows */
  readonly output: Tensor;
  /** `[..., H]` of T rows */
  readonly input: Tensor;
  /** `[R]` int32, of `groupByExpert`: the slot `t topK + slot` of each row, or -1 */
  readonly sources: Tensor;
  readonly topK: number;
}

/**
 * `output[r] = input[sources[r] / topK]`, zeros where the source is -1: the rows of each expert together. The
 * backward of `combineRows`.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit, `MTL_INDEX`
 *   for a source that is no slot of a row
 */
export const permuteRows = returningOperation<PermuteRowsOptions, 'output'>(
  'permuteRows',
  { output: ({ input, sources }) => like(input, [sources.size, input.dim(-1)]) },
  ({ output, input, sources, topK }) => {
    runOperation('permute_rows', { output, input, sources, topK });
  },
);

export interface CombineRowsOptions {
  /** `[..., H]` of T rows */
  readonly output: Tensor;
  /** `[..., H]` of R rows */
  readonly rows: Tensor;
  /** `[T, k]` int32, of `groupByExpert`: the row of each slot, or -1 */
  readonly positions: Tensor;
}

/**
 * output[t] = sum over slots, in their order and in float32, of rows[positions[t, slot]], without those that
 * are -1. The backward of `permuteRows`.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for a position that
 *   is no row
 */
export const combineRows = returningOperation<CombineRowsOptions, 'output'>(
  'combineRows',
  { output: ({ rows, positions }) => like(rows, [positions.dim(0), rows.dim(-1)]) },
  ({ output, rows, positions }) => {
    runOperation('combine_rows', { output, rows, positions });
  },
);
