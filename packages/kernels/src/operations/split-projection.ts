import { UsageError } from '@mtl/errors';
import { checkedOperation } from '../checked-operation.js';
import type { Tensor } from '../tensor.js';

/** Strided views of a packed projection; the caller's to dispose of. */
export interface SplitProjection {
  /** [S, B, G, R, D] or [T, G, R, D] */
  readonly query: Tensor;
  /** [S, B, G, D] or [T, G, D] */
  readonly key: Tensor;
  /** [S, B, G, D] or [T, G, D] */
  readonly value: Tensor;
}

/** The dimensions up to that of groups, and the strides of them, of rows and of elements. */
function layoutOf(qkv: Tensor) {
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
 * Query, key and value in a packed projection `[S, B, G, R + 2, D]`, or `[T, G, R + 2, D]` of packed samples,
 * the R queries of each group followed by its key and its value, without copying: what `attentionForward` and
 * `attentionBackward` take.
 *
 * @throws UsageError `MTL_SHAPE` for a tensor of another shape
 */
export const splitProjection = checkedOperation('splitProjection', (qkv: Tensor): SplitProjection => {
  const { outer, numParts, size, strides, outerStrides } = layoutOf(qkv);
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
 * The queries and keys in a packed projection `[S, B, G, R + 2, D]` or `[T, G, R + 2, D]`, a strided view of
 * R + 1 rows a group: what `rotaryEmbedding` rotates in one call.
 *
 * @throws UsageError `MTL_SHAPE` for a tensor of another shape
 */
export const queriesAndKeys = checkedOperation('queriesAndKeys', (qkv: Tensor): Tensor => {
  const { outer, numParts, size, strides } = layoutOf(qkv);
  return qkv.strided({ shape: [...outer, numParts - 1, size], strides });
});
