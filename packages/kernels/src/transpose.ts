import { addon, callNative } from './native/addon.js';

/**
 * Transposes a matrix on the host, with the threads of the kernels. `target[column, row]` becomes
 * `source[rowOrder[row], columnOrder[column]]`. Both arrays are row-major, have elements of the same size,
 * and must not overlap.
 *
 * @param options.target [numColumns, numRows]
 * @param options.source [numRows, numColumns]
 * @param options.elementBytes the size of an element, 1, 2, 4 or 8, if the arrays are bytes of wider
 *   elements. Default: the size of the target's elements
 * @param options.rowOrder the numbers of all rows of the source, in a new order. Default: the same order
 * @param options.columnOrder the numbers of all columns of the source, in a new order. Default: the same
 *   order
 * @throws KernelError `MTL_SHAPE` for arrays of another length, `MTL_ARGUMENT` for bytes that do not begin at
 *   an element, `MTL_INDEX` for an order with invalid numbers
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
