import { addon, callNative } from './native/addon.js';

/**
 * Transposes a matrix on the host, with the threads of the kernels: `target[column, row]` becomes
 * `source[rowOrder[row], columnOrder[column]]`. Both are float32 and row-major; they must not overlap.
 *
 * @param options.target [numColumns, numRows]
 * @param options.source [numRows, numColumns]
 * @param options.rowOrder of all rows of the source; default: the same order
 * @param options.columnOrder of all columns of the source; default: the same order
 * @throws KernelError `MTL_SHAPE` for arrays of another length, `MTL_INDEX` for an order with other numbers
 */
export function transpose(options: {
  readonly target: Float32Array;
  readonly source: Float32Array;
  readonly numRows: number;
  readonly numColumns: number;
  readonly rowOrder?: Int32Array | undefined;
  readonly columnOrder?: Int32Array | undefined;
}): void {
  const { target, source, numRows, numColumns, rowOrder, columnOrder } = options;
  callNative(() => addon().transpose(target, source, numRows, numColumns, rowOrder, columnOrder));
}
