import { checkedOperation } from '../checked-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';
import { attentionForward } from './attention.js';

/** S new positions, B batch, A query heads in G groups, D head size, M positions that fit the caches. */
export interface AttentionCachedForwardOptions {
  /** `[B, G, M, D]`: keys of the positions so far; the new ones are written at `position` and after. */
  readonly keyCache: Tensor;
  /** `[B, G, M, D]` */
  readonly valueCache: Tensor;
  /** [S, B, A, D] */
  readonly output: Tensor;
  /** [S, B, A, D] or [S, B, G, R, D]: the new positions. This, key and value may be strided views. */
  readonly query: Tensor;
  /** [S, B, G, D] */
  readonly key: Tensor;
  /** [S, B, G, D] */
  readonly value: Tensor;
  /** Positions that are cached already; position + S may be M at most. */
  readonly position: number;
  /** As that of `attentionForward`. */
  readonly windowSize?: number | undefined;
  /** Of the scores; above 0. Default: 1 / sqrt(D). */
  readonly scale?: number;
}

/** The cached positions so far, [position + S, B, G, D], without copying. */
function positionsOf(cache: Tensor, numPositions: number): Tensor {
  const [batch, groups, capacity, size] = cache.shape as [number, number, number, number];
  return cache.strided({
    shape: [numPositions, batch, groups, size],
    strides: [size, groups * capacity * size, capacity * size, 1],
  });
}

/**
 * Stores the keys and values of new positions in caches, and computes causal attention of their queries over
 * all positions so far: a step of generation.
 */
export const attentionCachedForward = checkedOperation(
  'attentionCachedForward',
  (options: AttentionCachedForwardOptions): void => {
    const { keyCache, valueCache, key: newKey, value: newValue, position, ...call } = options;
    runOperation('append_to_cache', { keyCache, valueCache, key: newKey, value: newValue, position });
    // no new positions and no queries: there is no output
    if (newKey.dim(0) === 0 && call.query.dim(0) === 0) return;
    const numPositions = position + newKey.dim(0);
    using key = positionsOf(keyCache, numPositions);
    using value = positionsOf(valueCache, numPositions);
    attentionForward({ ...call, key, value, causal: true, firstQuery: position });
  },
);
