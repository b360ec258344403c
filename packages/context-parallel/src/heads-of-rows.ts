import type { Heads } from '@mtl/autograd';
import { cast, Tensor } from '@mtl/kernels';
import type { RowOrder } from './chunks.js';

/** The number of rows, and the sizes of their heads. */
export interface HeadSizes {
  /** The row dimensions: [own, B], or [own] for packed samples. */
  readonly rows: readonly number[];
  /** A, query heads. */
  readonly heads: number;
  /** G, groups of heads. */
  readonly groups: number;
  /** D: the number of features of a query and of a key. */
  readonly headSize: number;
  /** E: the number of features of a value. */
  readonly valueSize: number;
}

export function measureSizes({ query, value }: Heads<Tensor>): HeadSizes {
  const [groups, headsPerGroup, headSize] = query.shape.slice(-3) as [number, number, number];
  const rows = query.shape.slice(0, -3);
  return { rows, heads: groups * headsPerGroup, groups, headSize, valueSize: value.dim(-1) };
}

/** Applies a function to queries, keys and values. */
export const mapHeads = <From, To>(heads: Heads<From>, map: (of: From) => To): Heads<To> => ({
  query: map(heads.query),
  key: map(heads.key),
  value: map(heads.value),
});

/** Calls `write` with the rows of all three targets in the order of chunks (see `RowOrder.into`). */
export function headsInto(
  order: RowOrder,
  { query, key, value }: Heads<Tensor>,
  write: (rows: Heads<Tensor>) => void,
): void {
  order.into(query, (ofQuery) =>
    order.into(key, (ofKey) =>
      order.into(value, (ofValue) => write({ query: ofQuery, key: ofKey, value: ofValue })),
    ),
  );
}

/**
 * Returns the rows of one of this process's chunks: [c, ...] from [own, ...]. `place` is the chunk's index
 * among the process's chunks.
 */
export function rowsOfPlace(
  tensor: Tensor,
  place: number,
  { perProcess }: { readonly perProcess: number },
): Tensor {
  const size = tensor.dim(0) / perProcess;
  return tensor.rows(place * size, (place + 1) * size);
}

/** Copies keys and values to contiguous memory for sending: [rows, ..., G, D + E]. */
export function joinKeysAndValues({ key, value }: Heads<Tensor>): Tensor {
  const { dtype, device } = key;
  const [keySize, valueSize] = [key.dim(-1), value.dim(-1)];
  const both = Tensor.empty({ shape: [...key.shape.slice(0, -1), keySize + valueSize], dtype, device });
  const places = splitKeysAndValues(both, keySize);
  cast({ output: places.key, input: key });
  cast({ output: places.value, input: value });
  return both;
}

/** Splits rows [K, ..., G, D + E] into keys [K, ..., G, D] and values [K, ..., G, E]; strided views. */
export function splitKeysAndValues(
  both: Tensor,
  keySize: number,
): { readonly key: Tensor; readonly value: Tensor } {
  const { strides } = both;
  const outer = both.shape.slice(0, -1);
  const part = (offset: number, size: number): Tensor =>
    both.strided({ offset, shape: [...outer, size], strides });
  return { key: part(0, keySize), value: part(keySize, both.dim(-1) - keySize) };
}
