import { countElements, transpose } from '@mtl/kernels';
import type { AllocateFloats } from './float-bytes.js';
import { copyRuns, reversedRuns, type ValueRun } from './value-runs.js';

/** A tensor of a Hugging Face file. The name lacks the model's prefix. */
export interface HuggingFaceTensor {
  readonly name: string;
  readonly shape: readonly number[];
}

/**
 * The mapping between a logical tensor (name and layout as in Megatron-Core) and one or several tensors of a
 * Hugging Face file. BERT, for example, has separate tensors for query, key and value. Each model type has a
 * list of mappings.
 */
export interface WeightMapping {
  /** The logical name, which is the name of the `Parameter`. */
  readonly name: string;
  readonly globalShape: readonly number[];
  readonly sources: readonly HuggingFaceTensor[];
  /**
   * Returns the values of the source with index `source` as runs from the source to the logical tensor, in
   * the order of the logical tensor. With runs, a part of the tensor can be read or written without the rest.
   * Absent: the file has rows in another order, or other values.
   */
  listRuns?(source: number): readonly ValueRun[];
  /**
   * The stored dtype of the tensor, if it does not depend on the dtype of the other tensors. Absent: the same
   * dtype as the other tensors.
   */
  readonly dtype?: 'F32';
  /**
   * Converts the row-major values of the sources, in order, to the values of the logical tensor. The result
   * may share memory with a source. `allocate` returns memory for the result. Call it at most once.
   */
  toLogical(sources: readonly Float32Array[], allocate: AllocateFloats): Float32Array;
  /** Converts the values of the logical tensor back to the values of the sources; padding is dropped. */
  toSources(logical: Float32Array, allocate: AllocateFloats): readonly Float32Array[];
}

/** Returns true if the runs consist of one run over the complete array. */
const isWhole = ([run, ...others]: readonly ValueRun[], length: number): boolean =>
  run?.length === length && others.length === 0;

/**
 * Returns a mapping of sources that are copied by runs. Values of the logical tensor outside of all runs
 * become zero. Every value of a source is in a run.
 */
export function mappingOfRuns(
  mapping: Pick<WeightMapping, 'name' | 'globalShape' | 'sources'> &
    Required<Pick<WeightMapping, 'listRuns'>>,
): WeightMapping {
  const { globalShape, sources, listRuns } = mapping;
  const numValues = globalShape.reduce((product, size) => product * size, 1);
  return {
    ...mapping,
    toLogical: (values, allocate) => {
      if (sources.length === 1 && isWhole(listRuns(0), numValues)) return values[0]!;
      const logical = allocate(numValues).fill(0);
      for (const [position, source] of values.entries())
        copyRuns(listRuns(position), { source, target: logical });
      return logical;
    },
    toSources: (logical, allocate) =>
      sources.map((source, position) => {
        const runs = listRuns(position);
        const length = countElements(source.shape);
        const [first] = runs;
        if (isWhole(runs, length)) return logical.subarray(first!.to, first!.to + length);
        const values = allocate(length);
        copyRuns(reversedRuns(runs), { source: logical, target: values });
        return values;
      }),
  };
}

/**
 * Maps tensors to consecutive positions of our tensor, without changes. The rest of a larger tensor is zero.
 */
function consecutive(
  name: string,
  sources: readonly HuggingFaceTensor[],
  globalShape: readonly number[],
): WeightMapping {
  const lengths = sources.map(({ shape }) => countElements(shape));
  const starts = listStarts(lengths);
  const listRuns = (source: number) => [{ from: 0, to: starts[source]!, length: lengths[source]! }];
  return mappingOfRuns({ name, globalShape, sources, listRuns });
}

/** Returns the starts of consecutive sections with the given lengths. */
function listStarts(lengths: readonly number[]): readonly number[] {
  let start = 0;
  return lengths.map((length) => {
    start += length;
    return start - length;
  });
}

/** Maps a tensor that has the same layout in the file. */
export const sameLayout = (
  name: string,
  source: HuggingFaceTensor,
  globalShape = source.shape,
): WeightMapping => consecutive(name, [source], globalShape);

/**
 * Maps a nested list of tensors to our single tensor, in row-major order: first the tensors of the first
 * entry, then the tensors of the next entry, and so on.
 */
export const stacked = (
  name: string,
  entries: readonly (readonly HuggingFaceTensor[])[],
  globalShape: readonly number[],
): WeightMapping => consecutive(name, entries.flat(), globalShape);

/** Maps a table [V, H] or a vector [V]. Our tensor has `paddedRows` rows; the rows after V are zeros. */
export const paddedTable = (name: string, source: HuggingFaceTensor, paddedRows: number): WeightMapping =>
  consecutive(name, [source], [paddedRows, ...source.shape.slice(1)]);

/**
 * Maps a matrix [O, r] or a bias [O] whose rows have another order in the file. Our row `row` is the file's
 * row `rowOf[row]`.
 */
export function reorderedRows(
  name: string,
  source: HuggingFaceTensor,
  { globalShape, rowOf }: { readonly globalShape: readonly number[]; readonly rowOf: Int32Array },
): WeightMapping {
  const length = source.shape[1] ?? 1;
  const listRuns = (): readonly ValueRun[] => {
    const runs: { from: number; to: number; length: number }[] = [];
    rowOf.forEach((theirs, ours) => {
      const last = runs.at(-1);
      if (last !== undefined && last.from + last.length === theirs * length) last.length += length;
      else runs.push({ from: theirs * length, to: ours * length, length });
    });
    return runs;
  };
  return mappingOfRuns({ name, globalShape, sources: [source], listRuns });
}

/**
 * Maps a weight [I, O] of transformers' Conv1D to our weight [O, I]. With `columnOf`, our output `row` is the
 * file's column `columnOf[row]`.
 */
export function transposedWeight(
  name: string,
  source: HuggingFaceTensor,
  options: { globalShape?: readonly number[]; columnOf?: Int32Array } = {},
): WeightMapping {
  const [inputs, outputs] = source.shape as [number, number];
  const { columnOf } = options;
  return {
    name,
    globalShape: options.globalShape ?? [outputs, inputs],
    sources: [source],
    toLogical: ([values], allocate) => {
      const target = allocate(values!.length);
      transpose({ target, source: values!, numRows: inputs, numColumns: outputs, columnOrder: columnOf });
      return target;
    },
    toSources: (logical, allocate) => {
      const target = allocate(logical.length);
      const rowOrder = columnOf && invertOrder(columnOf);
      transpose({ target, source: logical, numRows: outputs, numColumns: inputs, rowOrder });
      return [target];
    },
  };
}

function invertOrder(order: Int32Array): Int32Array {
  const inverse = new Int32Array(order.length);
  order.forEach((theirs, ours) => {
    inverse[theirs] = ours;
  });
  return inverse;
}

/**
 * Maps several tensors [groups * size, ...], which may differ in size, to a single tensor of ours. In our
 * tensor, all rows of a group are consecutive, for example query, key and value of a head.
 */
export function sideBySide(
  name: string,
  sources: readonly HuggingFaceTensor[],
  { numGroups, globalShape }: { readonly numGroups: number; readonly globalShape: readonly number[] },
): WeightMapping {
  const sizes = sources.map((source) => countElements(source.shape) / numGroups);
  const groupSize = sizes.reduce((sum, size) => sum + size, 0);
  const starts = listStarts(sizes);
  const listRuns = (source: number) =>
    Array.from({ length: numGroups }, (_, group) => ({
      from: group * sizes[source]!,
      to: group * groupSize + starts[source]!,
      length: sizes[source]!,
    }));
  return mappingOfRuns({ name, globalShape, sources, listRuns });
}
