import { countElements, transpose } from '@mtl/kernels';
import type { AllocateFloats } from './float-bytes.js';
import { copyRuns, reversedRuns, type ValueRun } from './value-runs.js';

/** A tensor in a Hugging Face file. `name` is without the model's prefix. */
export interface HuggingFaceTensor {
  readonly name: string;
  readonly shape: readonly number[];
}

/**
 * The mapping between a logical tensor (with the name and layout of Megatron-Core) and one or several tensors
 * in a Hugging Face file. BERT, for example, has separate tensors for query, key and value. Each model type
 * has a list of mappings.
 */
export interface WeightMapping {
  /** The logical name, which is the name of the `Parameter`. */
  readonly name: string;
  readonly globalShape: readonly number[];
  readonly sources: readonly HuggingFaceTensor[];
  /**
   * Returns the runs from the source with index `source` to the logical tensor, in the order of the logical
   * tensor. With runs, a part of the tensor can be read or written without the rest. Absent if the values
   * cannot be copied by runs, for example because they are transposed.
   */
  listRuns?(source: number): readonly ValueRun[];
  /**
   * The tensor's stored dtype, if it is fixed. If absent, the tensor has the common dtype of all tensors
   * without a fixed dtype.
   */
  readonly dtype?: 'F32';
  /**
   * Converts the sources' row-major values, in order, to the values of the logical tensor. The result may
   * share memory with a source. `allocate` returns memory for the result, and must be called at most once.
   */
  toLogical(sources: readonly Float32Array[], allocate: AllocateFloats): Float32Array;
  /** Converts the values of the logical tensor back to the sources' values, without padding. */
  toSources(logical: Float32Array, allocate: AllocateFloats): readonly Float32Array[];
}

/** Returns true if there is only one run, which covers the complete array. */
const isWhole = ([run, ...others]: readonly ValueRun[], length: number): boolean =>
  run?.length === length && others.length === 0;

/**
 * Completes a mapping whose sources are copied by runs. The runs must contain all values of each source.
 * Values of the logical tensor outside of all runs become zero.
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
 * Maps tensors to consecutive ranges of our tensor, without changing them. If our tensor is larger, its rest
 * is zero.
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

/** Returns where each of several consecutive sections starts, given their lengths. */
function listStarts(lengths: readonly number[]): readonly number[] {
  let start = 0;
  return lengths.map((length) => {
    start += length;
    return start - length;
  });
}

/** Maps a tensor whose layout in the file is the same as ours. */
export const sameLayout = (
  name: string,
  source: HuggingFaceTensor,
  globalShape = source.shape,
): WeightMapping => consecutive(name, [source], globalShape);

/**
 * Maps a nested list of tensors to our single tensor, in row-major order: first all tensors of the first
 * entry, then all tensors of the next entry, and so on.
 */
export const stacked = (
  name: string,
  entries: readonly (readonly HuggingFaceTensor[])[],
  globalShape: readonly number[],
): WeightMapping => consecutive(name, entries.flat(), globalShape);

/** Maps a table [V, H] or a vector [V]. Our tensor has `paddedRows` rows, and all rows from V on are zero. */
export const paddedTable = (name: string, source: HuggingFaceTensor, paddedRows: number): WeightMapping =>
  consecutive(name, [source], [paddedRows, ...source.shape.slice(1)]);

/**
 * Maps a matrix [O, r] or a bias [O] whose rows are ordered differently in the file. Our row `row` is the
 * file's row `rowOf[row]`.
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
 * Maps a weight [I, O] of the transformers library's Conv1D to our weight [O, I]. If `columnOf` is given, our
 * row `row` is the file's column `columnOf[row]`.
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
 * Maps several tensors [groups * size, ...], whose sizes may differ, to a single tensor of ours. In our
 * tensor, all rows of a group are consecutive, for example a head's query, key and value.
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
