import { addon, callNative } from './native/addon.js';

/**
 * Transposes a matrix on the host, using the threads of the CPU kernels. `target[column, row]` becomes
 * `source[rowOrder[row], columnOrder[column]]`. Both arrays are row-major, have elements of the same size,
 * and must not overlap.
 *
 * @param options.target [numColumns, numRows]
 * @param options.source [numRows, numColumns]
 * @param options.elementBytes the size of an element, 1, 2, 4 or 8, if the arrays contain the bytes of wider
 *   elements. Default: the size of the target's elements
 * @param options.rowOrder the indices of all rows of the source, in a new order. Default: the same order
 * @param options.columnOrder the indices of all columns of the source, in a new order. Default: the same
 *   order
 * @throws KernelError `MTL_SHAPE` for arrays of the wrong length, `MTL_ARGUMENT` for bytes that do not begin
 *   at an element, `MTL_INDEX` for an order with invalid indices
 */
export function transpose<Values extends Float32Array | Uint8Array>(options: {
  readonly target: Values;
  readonly source: Values;
  readonly numRows: number;
  readonly numColumns: number;
  readonly elementBytes?: number;
  readonly rowOrder?: Int32Array | undefined;
  readonly columnOrder?: Int32Array | undefined;
}): void {
  const { target, source, numRows, numColumns, rowOrder, columnOrder } = options;
  const { elementBytes = target.BYTES_PER_ELEMENT } = options;
  const { transpose: native } = addon();
  callNative(() => native(target, source, numRows, numColumns, elementBytes, rowOrder, columnOrder));
}
