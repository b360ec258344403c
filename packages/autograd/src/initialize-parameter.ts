import { cast, hasValues, philoxNormal, type Slice, Tensor } from '@mtl/kernels';
import type { Parameter } from './parameter.js';
import { philox } from './philox.js';
import { siteKey } from './random.js';

/** Columns of the matrix that a slice of some tensor is a rectangle of, if there is such a matrix. */
interface Rectangle {
  readonly globalColumns: number;
  readonly rowOffset: number;
  readonly columnOffset: number;
  readonly rows: number;
  readonly columns: number;
}

const isWhole = (slice: Slice, size: number): boolean => slice.start === 0 && slice.end === size;

/**
 * Folds a tensor that is sharded along one dimension into a matrix that is sharded along rows or columns: the
 * dimensions before the sharded one become rows, the sharded one and those after it columns.
 */
function rectangleOf({ globalShape, slices }: Parameter): Rectangle {
  const shardedDim = Math.max(
    0,
    slices.findIndex((slice, dim) => !isWhole(slice, globalShape[dim]!)),
  );
  const after = globalShape.slice(shardedDim + 1).reduce((product, size) => product * size, 1);
  const { start, end } = slices[shardedDim]!;
  if (slices.slice(0, shardedDim).every((slice) => slice.end - slice.start === 1) || shardedDim === 0) {
    // the first dimension is sharded: whole rows
    return { globalColumns: after, rowOffset: start, columnOffset: 0, rows: end - start, columns: after };
  }
  const rows = globalShape.slice(0, shardedDim).reduce((product, size) => product * size, 1);
  return {
    globalColumns: globalShape[shardedDim]! * after,
    rowOffset: 0,
    columnOffset: start * after,
    rows,
    columns: (end - start) * after,
  };
}

/** Writes the initial values of a parameter into `target` ([its shape], any floating dtype), for a seed. */
export function initializeParameter(parameter: Parameter, target: Tensor, seed: number): void {
  const { initialization } = parameter;
  switch (initialization.kind) {
    case 'zeros':
      target.zero();
      return;
    case 'ones':
      // a normal of deviation 0: a constant in any dtype, without a host array
      normal(parameter, target, { mean: 1, standardDeviation: 0, seed });
      return;
    case 'normal':
      normal(parameter, target, { mean: 0, standardDeviation: initialization.standardDeviation, seed });
      return;
    case 'uniform':
      uniform(parameter, target, { bound: initialization.bound, seed });
      return;
  }
}

/**
 * Element e of the whole tensor takes word e % 4 of Philox counter e / 4, as normal values do: a 32-bit
 * number, from the middle of its interval.
 */
function uniform(
  parameter: Parameter,
  target: Tensor,
  { bound, seed }: { readonly bound: number; readonly seed: number },
): void {
  const { globalColumns, rowOffset, columnOffset, rows, columns } = rectangleOf(parameter);
  using values = Tensor.empty({ shape: [rows * columns], dtype: 'float32', device: target.device });
  if (hasValues(target.device)) {
    const key = siteKey(seed, parameter.name);
    const onHost = new Float32Array(rows * columns);
    let [block, words] = [-1, philox(key, [0, 0, 0, 0])];
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const element = (row + rowOffset) * globalColumns + column + columnOffset;
        const counter = Math.floor(element / 4);
        if (counter !== block) {
          words = philox(key, [counter >>> 0, Math.floor(counter / 2 ** 32), 0, 0]);
          block = counter;
        }
        onHost[row * columns + column] = bound * ((words[element % 4]! + 0.5) / 2 ** 31 - 1);
      }
    }
    values.write(onHost);
  }
  cast({ output: target, input: values });
}

function normal(
  parameter: Parameter,
  target: Tensor,
  { mean, standardDeviation, seed }: { mean: number; standardDeviation: number; seed: number },
): void {
  const { rows, columns, ...offsets } = rectangleOf(parameter);
  const matrix = target.reshape([rows, columns]);
  philoxNormal({ output: matrix, mean, standardDeviation, key: siteKey(seed, parameter.name), ...offsets });
  matrix.dispose();
}
