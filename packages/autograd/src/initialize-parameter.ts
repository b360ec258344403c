import { cast, hasValues, philoxNormal, Tensor } from '@mtl/kernels';
import type { Parameter } from './parameter.js';
import { philox, siteKey } from './random.js';

/**
 * A rectangle within the complete tensor, where the tensor is viewed as a matrix. The rectangle's values are
 * contiguous in this process's slice.
 */
interface Rectangle {
  /** The position in the slice where the rectangle begins, in elements. */
  readonly offset: number;
  readonly globalColumns: number;
  readonly rowOffset: number;
  readonly columnOffset: number;
  readonly rows: number;
  readonly columns: number;
}

const computeProduct = (sizes: readonly number[]): number =>
  sizes.reduce((product, size) => product * size, 1);

/**
 * Splits a slice of a tensor into rectangles. The dimensions before the last sharded dimension become rows;
 * the other dimensions become columns. If an earlier dimension is also sharded (as for experts), each index
 * of this dimension has its own rectangle.
 */
function splitRectangles({ globalShape, slices, shape }: Parameter): readonly Rectangle[] {
  const sharded = slices.flatMap(({ start, end }, dim) =>
    start === 0 && end === globalShape[dim] ? [] : [dim],
  );
  const last = sharded.at(-1) ?? 0;
  const after = computeProduct(globalShape.slice(last + 1));
  const { start, end } = slices[last] ?? { start: 0, end: 1 };
  if (last === 0) {
    // whole rows
    const [rows, columns] = [end - start, after];
    return [{ offset: 0, globalColumns: after, rowOffset: start, columnOffset: 0, rows, columns }];
  }
  const numOuter = (sharded.at(-2) ?? -1) + 1;
  const rows = computeProduct(globalShape.slice(numOuter, last));
  const columns = (end - start) * after;
  const common = { globalColumns: globalShape[last]! * after, columnOffset: start * after, rows, columns };
  return Array.from({ length: computeProduct(shape.slice(0, numOuter)) }, (_, index) => ({
    ...common,
    offset: index * rows * columns,
    rowOffset: computeGlobalIndex(index, { slices, globalShape, numOuter }) * rows,
  }));
}

/**
 * Converts `index`, an index into the flattened first `numOuter` dimensions of the slice, to the index of the
 * same position in the complete tensor.
 */
function computeGlobalIndex(
  index: number,
  {
    slices,
    globalShape,
    numOuter,
  }: Pick<Parameter, 'slices' | 'globalShape'> & { readonly numOuter: number },
): number {
  let [rest, stride, global] = [index, 1, 0];
  for (let dim = numOuter - 1; dim >= 0; dim--) {
    const { start, end } = slices[dim]!;
    global += (start + (rest % (end - start))) * stride;
    rest = Math.floor(rest / (end - start));
    stride *= globalShape[dim]!;
  }
  return global;
}

/**
 * Writes the initial values of a parameter into `target`, a tensor of the parameter's shape and any
 * floating-point dtype.
 */
export function initializeParameter(parameter: Parameter, target: Tensor, seed: number): void {
  const { initialization } = parameter;
  switch (initialization.kind) {
    case 'zeros':
      target.zero();
      return;
    case 'ones':
      // with standard deviation 0, `normal` writes the constant 1 into a tensor of any dtype, without an
      // array on the host
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
 * Fills rectangles with uniform values in (-bound, bound). As in `normal`, element e of the complete tensor
 * uses word e % 4 of Philox counter e / 4. Each 32-bit word stands for an interval, and the value is the
 * interval's middle.
 */
function uniform(
  parameter: Parameter,
  target: Tensor,
  { bound, seed }: { readonly bound: number; readonly seed: number },
): void {
  using values = Tensor.empty({ shape: [parameter.size], dtype: 'float32', device: target.device });
  if (hasValues(target.device)) {
    const key = siteKey(seed, parameter.name);
    const onHost = new Float32Array(parameter.size);
    let [block, words] = [-1, philox(key, [0, 0, 0, 0])];
    for (const { offset, globalColumns, rowOffset, columnOffset, rows, columns } of splitRectangles(
      parameter,
    )) {
      for (let row = 0; row < rows; row++) {
        for (let column = 0; column < columns; column++) {
          const element = (row + rowOffset) * globalColumns + column + columnOffset;
          const counter = Math.floor(element / 4);
          if (counter !== block) {
            words = philox(key, [counter >>> 0, Math.floor(counter / 2 ** 32), 0, 0]);
            block = counter;
          }
          onHost[offset + row * columns + column] = bound * ((words[element % 4]! + 0.5) / 2 ** 31 - 1);
        }
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
  const key = siteKey(seed, parameter.name);
  for (const { offset, rows, columns, ...offsets } of splitRectangles(parameter)) {
    using matrix = target.view({ offset, shape: [rows, columns] });
    philoxNormal({ output: matrix, mean, standardDeviation, key, ...offsets });
  }
}
