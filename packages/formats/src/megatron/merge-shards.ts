import type { TensorSplit } from './tensor-split.js';

/** Where queries, keys and values of a head are among the outputs of their layer. */
export interface QkvOrder {
  /** `checkpoint_version`: 0 has [3, heads, D], 1 has [heads, D, 3], 2 and later [groups, A / G + 2, D]. */
  readonly version: number;
  /** D */
  readonly headSize: number;
}

/**
 * The row of the whole tensor that is row `row` of a shard.
 *
 * @param sizes numRows of a shard, its number and how many shards there are
 */
function wholeRow(
  row: number,
  split: TensorSplit,
  { numRows, shard, numShards, qkv }: ShardSizes & { readonly shard: number },
): number {
  const first = shard * numRows;
  if (split === 'gated-rows') {
    const half = numRows / 2;
    return Math.floor(row / half) * half * numShards + shard * half + (row % half);
  }
  if (split !== 'qkv-rows' || qkv.version >= 2) return first + row;
  const { version, headSize } = qkv;
  const numHeads = numRows / (3 * headSize);
  const feature = version < 1 ? row % headSize : Math.floor(row / 3) % headSize;
  const head = version < 1 ? Math.floor(row / headSize) % numHeads : Math.floor(row / (3 * headSize));
  const part = version < 1 ? Math.floor(row / (headSize * numHeads)) : row % 3;
  return first + (head * 3 + part) * headSize + feature;
}

interface ShardSizes {
  readonly numRows: number;
  readonly numShards: number;
  readonly qkv: QkvOrder;
}

/** The shape of a whole tensor, from that of its shards. */
export function wholeShape(
  shape: readonly number[],
  split: TensorSplit,
  numShards: number,
): readonly number[] {
  const dim = split === 'none' ? -1 : split === 'columns' ? 1 : 0;
  return shape.map((size, index) => (index === dim ? size * numShards : size));
}

/**
 * Copies a shard to its places in the whole tensor. Rows from `target.length` on are left out: those of a
 * padded vocabulary.
 *
 * @param options.shape of the shard
 */
export function mergeShard(options: {
  readonly target: Uint8Array;
  readonly bytes: Uint8Array;
  readonly shape: readonly number[];
  readonly split: TensorSplit;
  readonly shard: number;
  readonly numShards: number;
  readonly qkv: QkvOrder;
}): void {
  const { target, bytes, shape, split, shard, numShards, qkv } = options;
  const numRows = shape[0] ?? 1;
  const rowBytes = bytes.length / numRows;
  if (split === 'none') {
    target.set(bytes.subarray(0, target.length));
    return;
  }
  for (let row = 0; row < numRows; row++) {
    const source = bytes.subarray(row * rowBytes, (row + 1) * rowBytes);
    const start =
      split === 'columns'
        ? row * rowBytes * numShards + shard * rowBytes
        : wholeRow(row, split, { numRows, shard, numShards, qkv }) * rowBytes;
    if (start + rowBytes <= target.length) target.set(source, start);
  }
}
