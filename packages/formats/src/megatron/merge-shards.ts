import { TorchTensor } from '@mtl/checkpoint';
import { megatronError } from './megatron-files.js';

/** The order of queries, keys and values in the rows of the qkv linear layer. */
interface QkvOrder {
  /**
   * Megatron-LM's `checkpoint_version`. The rows are [3, heads, D] in version 0, [heads, D, 3] in version 1,
   * and [groups, heads per group + 2, D] from version 2 on.
   */
  readonly version: number;
  /** D, the size of a head. */
  readonly headSize: number;
}

/**
 * Returns the row of the complete tensor to which row `row` of a shard corresponds.
 *
 * @param sizes the shard's row count and index, the number of shards, and the order of qkv rows
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

/** Returns a complete tensor's shape, given the shape of one shard and the number of shards. */
export function wholeShape(
  shape: readonly number[],
  split: TensorSplit,
  numShards: number,
): readonly number[] {
  const dim = split === 'none' ? -1 : split === 'columns' ? 1 : 0;
  return shape.map((size, index) => (index === dim ? size * numShards : size));
}

/**
 * Copies a shard to its position in the complete tensor. Rows beyond the end of `target` are omitted, because
 * they are the vocabulary's padding.
 *
 * @param options.shape the shape of the shard
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

/**
 * How Megatron-LM shards a tensor over tensor-parallel ranks.
 *
 * - `rows`: outputs of a column-parallel layer, or rows of the vocabulary
 * - `gated-rows`: outputs of a SwiGLU layer; each rank has first its gates and then its values
 * - `qkv-rows`: outputs for queries, keys and values, in an order that depends on `checkpoint_version`
 * - `columns`: inputs of a row-parallel layer
 * - `none`: replicated on all ranks
 */
export type TensorSplit = 'rows' | 'gated-rows' | 'qkv-rows' | 'columns' | 'none';

/** Returns how a tensor is sharded, given our name for it. For experts, the result applies to each expert. */
export function chooseSplit(name: string, { isGated }: { readonly isGated: boolean }): TensorSplit {
  if (/\.self_attention\.linear_qkv\./.test(name)) return 'qkv-rows';
  if (/\.mlp\.(experts\.|shared_experts\.)?linear_fc1\./.test(name)) return isGated ? 'gated-rows' : 'rows';
  if (/^(embedding\.word_embeddings|output_layer)\./.test(name)) return 'rows';
  if (/\.(self_attention\.linear_proj|mlp\.(experts\.|shared_experts\.)?linear_fc2)\.weight$/.test(name))
    return 'columns';
  return 'none';
}

/** The deepest nesting of modules that is searched. Megatron-LM's models are nested less deeply. */
const maxDepth = 12;

/**
 * Returns all tensors in a model's state dictionary. The names in nested dictionaries are joined by dots.
 * Values that are not tensors, such as the state of fp8 kernels, are omitted.
 */
export function flattenedTensors(model: unknown, path: string): ReadonlyMap<string, TorchTensor> {
  if (!(model instanceof Map)) {
    throw megatronError(path, 'it contains no model', {
      expected: 'a dictionary `model`, or `model0` and so on',
    });
  }
  const tensors = new Map<string, TorchTensor>();
  let numValues = 0;
  const add = (values: ReadonlyMap<unknown, unknown>, prefix: string, depth: number): void => {
    if (depth > maxDepth) throw megatronError(path, `its model is nested deeper than ${maxDepth} levels`);
    for (const [key, value] of values) {
      // a file may refer to the same dictionary many times, so the total number of values is limited
      if (++numValues > 1_000_000) throw megatronError(path, 'its model has more than a million parts');
      const name = `${prefix}${String(key)}`;
      if (value instanceof TorchTensor) tensors.set(name, value);
      else if (value instanceof Map) add(value, `${name}.`, depth + 1);
    }
  };
  add(model as ReadonlyMap<unknown, unknown>, '', 0);
  return tensors;
}
