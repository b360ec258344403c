import { UsageError } from '@mtl/errors';
import { checkedOperation } from '../checked-operation.js';
import type { Tensor } from '../tensor.js';

/** Strided views of a packed projection; the caller's to dispose of. */
export interface SplitProjection {
  /** [S, B, G, R, D] */
  readonly query: Tensor;
  /** [S, B, G, D] */
  readonly key: Tensor;
  /** [S, B, G, D] */
  readonly value: Tensor;
}

function checkProjection(qkv: Tensor): void {
  if (qkv.shape.length === 5 && qkv.shape[3]! >= 3) return;
  throw new UsageError('MTL_SHAPE', `a packed projection has shape [${qkv.shape.join(', ')}]`, {
    expected: '[S, B, G, R + 2, D] with R of 1 or more',
  });
}

/**
 * Query, key and value in a packed projection `[S, B, G, R + 2, D]`, the R queries of each group followed by
 * its key and its value, without copying: what `attentionForward` and `attentionBackward` take.
 *
 * @throws UsageError `MTL_SHAPE` for a tensor of another shape
 */
export const splitProjection = checkedOperation('splitProjection', (qkv: Tensor): SplitProjection => {
  checkProjection(qkv);
  const [sequence, batch, groups, parts, size] = qkv.shape as [number, number, number, number, number];
  const group = parts * size;
  const strides = [batch * groups * group, groups * group, group];
  const shape = [sequence, batch, groups];
  const row = (offset: number): Tensor =>
    qkv.strided({ offset, shape: [...shape, size], strides: [...strides, 1] });
  const isEmpty = qkv.size === 0;
  return {
    query: qkv.strided({ shape: [...shape, parts - 2, size], strides: [...strides, size, 1] }),
    key: row(isEmpty ? 0 : (parts - 2) * size),
    value: row(isEmpty ? 0 : (parts - 1) * size),
  };
});

/**
 * The queries and keys in a packed projection `[S, B, G, R + 2, D]`, a strided view [S, B, G, R + 1, D]: what
 * `rotaryEmbedding` rotates in one call.
 *
 * @throws UsageError `MTL_SHAPE` for a tensor of another shape
 */
export const queriesAndKeys = checkedOperation('queriesAndKeys', (qkv: Tensor): Tensor => {
  checkProjection(qkv);
  const [sequence, batch, groups, parts, size] = qkv.shape as [number, number, number, number, number];
  const group = parts * size;
  return qkv.strided({
    shape: [sequence, batch, groups, parts - 1, size],
    strides: [batch * groups * group, groups * group, group, size, 1],
  });
});
