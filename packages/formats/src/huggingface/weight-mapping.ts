import { transpose } from '@mtl/kernels/internal';
import type { AllocateFloats } from './float-bytes.js';

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
   * The number of consecutive sources that make up one entry of the first dimension without conversion, so
   * that entries can be read separately. Absent: any part needs all sources.
   */
  readonly sourcesOfEntry?: number;
  /**
   * True if the only source is a prefix of the logical tensor. It can then be read directly into memory that
   * `toLogical` allocates.
   */
  readonly startsWithSource?: boolean;
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

/** Maps a tensor that is stored as it is. */
export function sameLayout(
  name: string,
  source: HuggingFaceTensor,
  globalShape = source.shape,
): WeightMapping {
  return {
    name,
    globalShape,
    sources: [source],
    startsWithSource: true,
    toLogical: ([values]) => values!,
    toSources: (logical) => [logical],
  };
}

/**
 * Maps a list of tensors to our single tensor, row-major: the tensors of the first entry, then of the next.
 */
export function stacked(
  name: string,
  entries: readonly (readonly HuggingFaceTensor[])[],
  globalShape: readonly number[],
): WeightMapping {
  const sources = entries.flat();
  const sizes = sources.map(({ shape }) => shape.reduce((product, size) => product * size, 1));
  return {
    name,
    globalShape,
    sources,
    sourcesOfEntry: sources.length / entries.length,
    toLogical: (values, allocate) => {
      const logical = allocate(values.reduce((sum, { length }) => sum + length, 0));
      let start = 0;
      for (const part of values) {
        logical.set(part, start);
        start += part.length;
      }
      return logical;
    },
    toSources: (logical) => {
      let start = 0;
      return sizes.map((size) => {
        start += size;
        return logical.subarray(start - size, start);
      });
    },
  };
}

/** Maps a table [V, H]. Our table has rows of zeros after it, `paddedRows` rows in all. */
export function paddedTable(name: string, source: HuggingFaceTensor, paddedRows: number): WeightMapping {
  const [rows, columns] = source.shape as [number, number];
  return {
    name,
    globalShape: [paddedRows, columns],
    sources: [source],
    startsWithSource: true,
    toLogical: ([values], allocate) => {
      if (paddedRows === rows) return values!;
      const padded = allocate(paddedRows * columns);
      if (padded.buffer !== values!.buffer || padded.byteOffset !== values!.byteOffset) padded.set(values!);
      return padded.fill(0, values!.length);
    },
    toSources: (logical) => [logical.subarray(0, rows * columns)],
  };
}

/**
 * Maps a bias [O] whose outputs have another order in the file: our output `r` is the file's output
 * `columnOf[r]`.
 */
export function reorderedBias(
  name: string,
  source: HuggingFaceTensor,
  { globalShape, columnOf }: { globalShape: readonly number[]; columnOf: Int32Array },
): WeightMapping {
  return {
    name,
    globalShape,
    sources: [source],
    toLogical: ([values]) => Float32Array.from(columnOf, (column) => values![column]!),
    toSources: (logical, allocate) => {
      const values = allocate(logical.length);
      columnOf.forEach((column, row) => {
        values[column] = logical[row]!;
      });
      return [values];
    },
  };
}

/**
 * Maps a matrix [O, r] whose rows have another order in the file: our row `row` is the file's row
 * `rowOf[row]`.
 */
export function reorderedRows(
  name: string,
  source: HuggingFaceTensor,
  { globalShape, rowOf }: { readonly globalShape: readonly number[]; readonly rowOf: Int32Array },
): WeightMapping {
  const columns = source.shape[1]!;
  const row = (values: Float32Array, at: number): Float32Array =>
    values.subarray(at * columns, (at + 1) * columns);
  return {
    name,
    globalShape,
    sources: [source],
    toLogical: ([values], allocate) => {
      const logical = allocate(values!.length);
      rowOf.forEach((theirs, ours) => {
        logical.set(row(values!, theirs), ours * columns);
      });
      return logical;
    },
    toSources: (logical, allocate) => {
      const values = allocate(logical.length);
      rowOf.forEach((theirs, ours) => {
        values.set(row(logical, ours), theirs * columns);
      });
      return [values];
    },
  };
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

/** Maps a vector [V]. Our vector has zeros after it, `paddedSize` values in all. */
export function paddedVector(name: string, source: HuggingFaceTensor, paddedSize: number): WeightMapping {
  const [size] = source.shape as [number];
  const table = paddedTable(name, { name: source.name, shape: [size, 1] }, paddedSize);
  return { ...table, globalShape: [paddedSize], sources: [source] };
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
  const sizes = sources.map(({ shape }) => shape.reduce((product, size) => product * size, 1) / numGroups);
  const groupSize = sizes.reduce((sum, size) => sum + size, 0);
  const starts = sizes.map((_, position) => sizes.slice(0, position).reduce((sum, size) => sum + size, 0));
  const forGroups = (move: (part: { position: number; ours: number; theirs: number }) => void): void => {
    for (let group = 0; group < numGroups; group++) {
      for (const [position, start] of starts.entries())
        move({ position, ours: group * groupSize + start, theirs: group * sizes[position]! });
    }
  };
  return {
    name,
    globalShape,
    sources,
    toLogical: (values, allocate) => {
      const logical = allocate(numGroups * groupSize);
      forGroups(({ position, ours, theirs }) => {
        logical.set(values[position]!.subarray(theirs, theirs + sizes[position]!), ours);
      });
      return logical;
    },
    toSources: (logical, allocate) => {
      const values = sizes.map((size) => allocate(numGroups * size));
      forGroups(({ position, ours, theirs }) => {
        values[position]!.set(logical.subarray(ours, ours + sizes[position]!), theirs);
      });
      return values;
    },
  };
}
