import { philoxNormal, type Tensor } from '@mtl/kernels';
import type { Parameter, Slice } from './parameter.js';
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
 * Folds a tensor cut along one dimension into a matrix cut along rows or columns: dimensions before the cut
 * become rows, the cut dimension and those after it columns.
 */
function rectangleOf({ globalShape, slices }: Parameter): Rectangle {
  const cut = Math.max(
    0,
    slices.findIndex((slice, dim) => !isWhole(slice, globalShape[dim]!)),
  );
  const after = globalShape.slice(cut + 1).reduce((product, size) => product * size, 1);
  const { start, end } = slices[cut]!;
  if (slices.slice(0, cut).every((slice) => slice.end - slice.start === 1) || cut === 0) {
    // the first dimension is cut: whole rows
    return { globalColumns: after, rowOffset: start, columnOffset: 0, rows: end - start, columns: after };
  }
  const rows = globalShape.slice(0, cut).reduce((product, size) => product * size, 1);
  return {
    globalColumns: globalShape[cut]! * after,
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
  }
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
