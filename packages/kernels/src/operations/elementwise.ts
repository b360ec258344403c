import { checkedOperation } from '../checked-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/**
 * output = input in output's floating dtype, rounded to nearest; the same dtype is a copy. Either may be a
 * strided view whose last dimension is contiguous; then both have one shape.
 *
 * @throws KernelError `MTL_ARGUMENT` for tensors of different sizes, `MTL_SHAPE` or `MTL_DTYPE` for others
 *   that do not fit
 */
export const cast = checkedOperation(
  'cast',
  ({ output, input }: { readonly output: Tensor; readonly input: Tensor }): void => {
    runOperation('cast', { output, input });
  },
);

/** output = left + right, all of one dtype and shape; output may be either of them. */
export const add = checkedOperation(
  'add',
  ({
    output,
    left,
    right,
  }: {
    readonly output: Tensor;
    readonly left: Tensor;
    readonly right: Tensor;
  }): void => {
    runOperation('add', { output, left, right });
  },
);

/**
 * output = factor * input, or output + factor * input with `accumulate`; of any floating dtypes and of one
 * shape. Either may be a strided view whose last dimension is contiguous.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
 */
export const scale = checkedOperation(
  'scale',
  (options: {
    readonly output: Tensor;
    readonly input: Tensor;
    readonly factor: number;
    readonly accumulate?: boolean;
  }): void => {
    const { output, input, factor, accumulate = false } = options;
    runOperation('scale', { output, input, factor, accumulate });
  },
);
