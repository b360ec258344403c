import { UsageError } from '@mtl/errors';
import { checkedOperation } from '../checked-operation.js';
import type { Tensor } from '../tensor.js';

/** Strided views of the parts of a packed projection. The caller must dispose of the views. */
export interface SplitProjection {
  /** [S, B, G, R, D] or [T, G, R, D] */
  readonly query: Tensor;
  /** [S, B, G, D] or [T, G, D] */
  readonly key: Tensor;
  /** [S, B, G, D] or [T, G, D] */
  readonly value: Tensor;
}

/** Returns the dimensions up to the groups, how many rows a group has, the rows' size, and all strides. */
function describeLayout(qkv: Tensor) {
  const { shape } = qkv;
  if ((shape.length !== 4 && shape.length !== 5) || shape.at(-2)! < 3) {
    throw new UsageError('MTL_SHAPE', `a packed projection has shape [${shape.join(', ')}]`, {
      expected: '[S, B, G, R + 2, D] or, of packed samples, [T, G, R + 2, D], with R of 1 or more',
    });
  }
  const strides = shape.map((_, dim) => shape.slice(dim + 1).reduce((size, inner) => size * inner, 1));
  return {
    outer: shape.slice(0, -2),
    numParts: shape.at(-2)!,
    size: shape.at(-1)!,
    strides,
    outerStrides: [...strides.slice(0, -2), 1],
  };
}

/**
 * Returns query, key and value of a packed projection, `[S, B, G, R + 2, D]` or, for packed samples, `[T, G,
 * R + 2, D]`, without a copy, for `attentionForward` and `attentionBackward`. In each group, the R queries
 * are followed by the key and the value.
 *
 * @throws UsageError `MTL_SHAPE` for a tensor of a different shape
 */
export const splitProjection = checkedOperation('splitProjection', (qkv: Tensor): SplitProjection => {
  const { outer, numParts, size, strides, outerStrides } = describeLayout(qkv);
  const row = (part: number): Tensor =>
    qkv.strided({
      offset: qkv.size === 0 ? 0 : part * size,
      shape: [...outer, size],
      strides: outerStrides,
    });
  return {
    query: qkv.strided({ shape: [...outer, numParts - 2, size], strides }),
    key: row(numParts - 2),
    value: row(numParts - 1),
  };
});

/**
 * Returns the queries and keys of a packed projection, `[S, B, G, R + 2, D]` or `[T, G, R + 2, D]`, as a
 * strided view with R + 1 rows per group, so that a single call of `rotaryEmbedding` can rotate them.
 *
 * @throws UsageError `MTL_SHAPE` for a tensor of a different shape
 */
export const queriesAndKeys = checkedOperation('queriesAndKeys', (qkv: Tensor): Tensor => {
  const { outer, numParts, size, strides } = describeLayout(qkv);
  return qkv.strided({ shape: [...outer, numParts - 1, size], strides });
});
