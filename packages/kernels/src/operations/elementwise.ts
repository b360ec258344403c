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
