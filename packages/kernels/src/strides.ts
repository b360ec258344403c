/** Returns the strides of a contiguous tensor, in elements: the last dimension is adjacent in memory. */
export function contiguousStrides(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let dim = shape.length - 1; dim >= 0; dim--) {
    strides[dim] = stride;
    stride *= shape[dim]!;
  }
  return strides;
}

/**
 * Dimensions that can be merged, because their elements have a common distance. For example, dimensions [4,
 * 6] with strides [12, 2] are a run of 24 elements at distance 2.
 */
interface Run {
  size: number;
  readonly stride: number;
}

/**
 * Merges dimensions into as few runs as possible, beginning with the last dimension. Omits dimensions of size
 * 1, because their stride has no effect.
 */
function mergeDimensions(shape: readonly number[], strides: readonly number[]): Run[] {
  const runs: Run[] = [];
  for (let dim = shape.length - 1; dim >= 0; dim--) {
    const [size, stride] = [shape[dim]!, strides[dim]!];
    const last = runs.at(-1);
    if (size === 1) continue;
    if (last !== undefined && stride === last.size * last.stride) last.size *= size;
    else runs.push({ size, stride });
  }
  return runs;
}

/**
 * Returns the strides with which a strided tensor gets a different shape with the same number of elements,
 * without a copy; undefined if the distances between its elements do not allow this.
 */
export function reshapedStrides(
  from: { readonly shape: readonly number[]; readonly strides: readonly number[] },
  shape: readonly number[],
): number[] | undefined {
  if (shape.includes(0)) return contiguousStrides(shape); // no element has a distance
  const runs = mergeDimensions(from.shape, from.strides);
  const strides = new Array<number>(shape.length).fill(1);
  let [run, covered] = [0, 1]; // elements of the current run that the last dimensions cover
  for (let dim = shape.length - 1; dim >= 0; dim--) {
    if (shape[dim] === 1) continue;
    if (run < runs.length && covered === runs[run]!.size) [run, covered] = [run + 1, 1];
    const current = runs[run];
    if (current === undefined) return undefined;
    strides[dim] = covered * current.stride;
    covered *= shape[dim]!;
    if (current.size % covered !== 0) return undefined;
  }
  return strides;
}
