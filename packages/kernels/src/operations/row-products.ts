import { returningOperation, statisticsOf } from '../returning-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface RowProductsOptions {
  /** [rows] float32 (float64 over float64) */
  readonly output: Tensor;
  /** [..., H] */
  readonly left: Tensor;
  /** [..., H] */
  readonly right: Tensor;
  /** [H]. Default: ones. */
  readonly weight?: Tensor | undefined;
}

/**
 * output = the sum over the last dimension of left * right * weight: what processes add up for a norm over
 * features of which each holds some (see `squares` and `products` of RMSNorm).
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
 */
export const rowProducts = returningOperation<RowProductsOptions, 'output'>(
  'rowProducts',
  { output: ({ left }) => statisticsOf(left, [left.size / left.dim(-1)]) },
  ({ output, left, right, weight }) => {
    runOperation('row_products', { output, left, right, weight });
  },
);
