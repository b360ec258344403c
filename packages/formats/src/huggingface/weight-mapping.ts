import { countElements } from '@mtl/kernels';
import { transpose } from '@mtl/kernels/internal';
import type { AllocateFloats } from './float-bytes.js';
import { copyRuns, reversedRuns, type ValueRun } from './value-runs.js';

/** One tensor of a Hugging Face file, named without the model's prefix. */
export interface HuggingFaceTensor {
  readonly name: string;
  readonly shape: readonly number[];
}

/**
 * The form of one logical tensor (our name and layout, Megatron-Core style) in a Hugging Face file: one
 * tensor, or several (BERT keeps query, key and value apart). A model's name map is a list of these.
 */
export interface WeightMapping {
  /** Logical name: the name of the `Parameter`. */
  readonly name: string;
  readonly globalShape: readonly number[];
  readonly sources: readonly HuggingFaceTensor[];
  /**
   * Returns the values of a source, by its position in the list, as runs: `from` in the source, `to` in the
   * logical tensor, in the order of the logical tensor. Any part can then be read or written without the
   * rest. Absent: the values of rows have another order in the file, or are others.
   */
  runsOf?(source: number): readonly ValueRun[];
  /**
   * The dtype in which the tensor is stored, whatever the dtype of the other tensors. Absent: the dtype of
   * the others.
   */
  readonly dtype?: 'F32';
  /**
   * Converts the values of the sources, in their order and row-major, to the values of the logical tensor;
   * the result may share memory with a source. `allocate` returns memory for the result; call it once at
   * most.
   */
  toLogical(sources: readonly Float32Array[], allocate: AllocateFloats): Float32Array;
  /** Inverts `toLogical`; padding is dropped. */
  toSources(logical: Float32Array, allocate: AllocateFloats): readonly Float32Array[];
}

/** Returns whether runs are a whole array, in its order. */
const isWhole = ([run, ...others]: readonly ValueRun[], length: number): boolean =>
  run?.length === length && others.length === 0;

/**
 * Returns the mapping of sources whose values are runs of the logical tensor. Values of the logical tensor
 * that no run fills are zero; values in no run of a source do not exist.
 */
export function mappingOfRuns(
  mapping: Pick<WeightMapping, 'name' | 'globalShape' | 'sources'> & Required<Pick<WeightMapping, 'runsOf'>>,
): WeightMapping {
  const { globalShape, sources, runsOf } = mapping;
  const numValues = globalShape.reduce((product, size) => product * size, 1);
  return {
    ...mapping,
    toLogical: (values, allocate) => {
      if (sources.length === 1 && isWhole(runsOf(0), numValues)) return values[0]!;
      const logical = allocate(numValues).fill(0);
      for (const [position, source] of values.entries())
        copyRuns(runsOf(position), { source, target: logical });
      return logical;
    },
    toSources: (logical, allocate) =>
      sources.map((source, position) => {
        const runs = runsOf(position);
        const length = countElements(source.shape);
        const [first] = runs;
        if (isWhole(runs, length)) return logical.subarray(first!.to, first!.to + length);
        const values = allocate(length);
        copyRuns(reversedRuns(runs), { source: logical, target: values });
        return values;
      }),
  };
}

/** Maps tensors that are stored as they are, one after another. Zeros follow where our tensor is larger. */
function consecutive(
  name: string,
  sources: readonly HuggingFaceTensor[],
  globalShape: readonly number[],
): WeightMapping {
  const lengths = sources.map(({ shape }) => countElements(shape));
  const starts = listStarts(lengths);
  const runsOf = (source: number) => [{ from: 0, to: starts[source]!, length: lengths[source]! }];
  return mappingOfRuns({ name, globalShape, sources, runsOf });
}

/** Returns the start of each part, where the parts follow each other. */
function listStarts(lengths: readonly number[]): readonly number[] {
  let start = 0;
  return lengths.map((length) => {
    start += length;
    return start - length;
  });
}

/** Maps a tensor that is stored as it is. */
export const sameLayout = (
  name: string,
  source: HuggingFaceTensor,
  globalShape = source.shape,
): WeightMapping => consecutive(name, [source], globalShape);

/**
 * Maps a list of tensors to our single tensor, row-major: the tensors of the first entry, then of the next.
 */
export const stacked = (
  name: string,
  entries: readonly (readonly HuggingFaceTensor[])[],
  globalShape: readonly number[],
): WeightMapping => consecutive(name, entries.flat(), globalShape);

/** Maps a table [V, H], or a vector [V]. Ours has rows of zeros after it, `paddedRows` rows in all. */
export const paddedTable = (name: string, source: HuggingFaceTensor, paddedRows: number): WeightMapping =>
  consecutive(name, [source], [paddedRows, ...source.shape.slice(1)]);

/**
 * Maps a matrix [O, r], or a bias [O], whose rows have another order in the file: our row `row` is the file's
 * row `rowOf[row]`.
 */
export function reorderedRows(
  name: string,
  source: HuggingFaceTensor,
  { globalShape, rowOf }: { readonly globalShape: readonly number[]; readonly rowOf: Int32Array },
): WeightMapping {
  const length = source.shape[1] ?? 1;
  const runsOf = (): readonly ValueRun[] => {
    const runs: { from: number; to: number; length: number }[] = [];
    rowOf.forEach((theirs, ours) => {
      const last = runs.at(-1);
      if (last !== undefined && last.from + last.length === theirs * length) last.length += length;
      else runs.push({ from: theirs * length, to: ours * length, length });
    });
    return runs;
  };
  return mappingOfRuns({ name, globalShape, sources: [source], runsOf });
}

/**
 * Maps a weight of transformers' Conv1D, [I, O]. Our weight is [O, I], with its outputs in the order of
 * `columnOf`.
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
 * Maps tensors [groups * size, ...], whose sizes may differ, to our single tensor: the parts of each group
 * follow each other, like query, key and value of a head.
 */
export function sideBySide(
  name: string,
  sources: readonly HuggingFaceTensor[],
  { numGroups, globalShape }: { readonly numGroups: number; readonly globalShape: readonly number[] },
): WeightMapping {
  const sizes = sources.map((source) => countElements(source.shape) / numGroups);
  const groupSize = sizes.reduce((sum, size) => sum + size, 0);
  const starts = listStarts(sizes);
  const runsOf = (source: number) =>
    Array.from({ length: numGroups }, (_, group) => ({
      from: group * sizes[source]!,
      to: group * groupSize + starts[source]!,
      length: sizes[source]!,
    }));
  return mappingOfRuns({ name, globalShape, sources, runsOf });
}
