import type { DType } from '../dtype.js';
import { like, returningOperation } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface CastOptions {
  readonly output: Tensor;
  readonly input: Tensor;
}

/**
 * output = input, rounded to nearest in output's floating-point dtype. If both dtypes are the same, the
 * result is a copy. Either tensor may be a strided view with a contiguous last dimension; both must then have
 * the same shape. If `output` is omitted, `dtype` is the dtype of the new tensor.
 *
 * @throws KernelError `MTL_ARGUMENT` for tensors of different sizes, `MTL_SHAPE` or `MTL_DTYPE` for all other
 *   tensors that do not fit each other
 */
export const cast = returningOperation<CastOptions, 'output', { readonly dtype: DType }>(
  'cast',
  { output: ({ input, dtype }) => ({ ...like(input), dtype }) },
  ({ output, input }) => {
    runOperation('cast', { output, input });
  },
);

export interface AddOptions {
  readonly output: Tensor;
  readonly left: Tensor;
  readonly right: Tensor;
}

/** output = left + right. All tensors have the same dtype and shape. `output` may be `left` or `right`. */
export const add = returningOperation<AddOptions, 'output'>(
  'add',
  { output: ({ left }) => like(left) },
  ({ output, left, right }) => {
    runOperation('add', { output, left, right });
  },
);

export interface ScaleOptions {
  readonly output: Tensor;
  readonly input: Tensor;
  readonly factor: number;
  readonly accumulate?: boolean;
}

/**
 * output = factor * input, or output + factor * input if `accumulate` is true. The tensors may have any
 * floating-point dtypes, and must have the same shape. Either tensor may be a strided view with a contiguous
 * last dimension.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other
 */
export const scale = returningOperation<ScaleOptions, 'output'>(
  'scale',
  { output: ({ input }) => like(input) },
  ({ output, input, factor, accumulate = false }) => {
    runOperation('scale', { output, input, factor, accumulate });
  },
);
