import { checkedOperation } from '../checked-operation.js';
import { declareStatistics, like, returningOperation } from '../returning-operation.js';
import { type Operands, runOperation } from '../run-operation.js';
import type { Tensor, TensorOptions } from '../tensor.js';
import { checkVisibility, type Visibility, visibilityOperands } from './visibility.js';

/**
 * How attention is computed. D is the head size of queries and keys, and E the head size of values (E = D in
 * most models). This process has A query heads in G groups; the R = A / G heads of a group share one key and
 * one value (grouped-query attention, Ainslie et al. 2023). If G = A, every head has its own key and value.
 * If G = 1, all heads share one key and one value.
 */
export interface AttentionOptions {
  /** Default: every query sees all keys. */
  readonly visibility?: Visibility | undefined;
  /** The factor of the scores, above 0. Default: 1 / sqrt(D). */
  readonly scale?: number;
  /**
   * The soft cap c of the scores: a score s becomes `c * tanh(s / c)` before masks and softmax, so that it
   * stays between -c and c (Gemma Team 2024, "Gemma 2"). Default: no soft cap. Not supported on device cuda.
   */
  readonly softCap?: number | undefined;
  readonly dropout?: AttentionDropout | undefined;
}

/**
 * Dropout of attention probabilities. The decision depends on the Philox key and on the global sample index,
 * the global head, and the positions of query and key in the sequence. It thus depends neither on packing,
 * nor on how samples, heads and positions are distributed over processes and calls.
 */
export interface AttentionDropout {
  /** At least 0 and below 1. Kept probabilities are multiplied by 1 / (1 - probability). */
  readonly probability: number;
  /** The low 32 bits of the Philox key; `keyHigh` contains the high 32 bits. */
  readonly keyLow: number;
  readonly keyHigh: number;
  /** [B] int64, or [N] for packed samples: the global sample indices. */
  readonly samples: Tensor;
  /** The global index of the first head, for tensor parallelism. Default: 0. */
  readonly headOffset?: number;
}

export interface AttentionForwardOptions extends AttentionOptions {
  /**
   * [S, B, A, E], or [T, A, E] for packed samples; 0 if a query attends to no key. May be float32 although
   * the operands have 16 bits, so that results that are later merged with results for different keys (see
   * `mergeAttention`) are rounded only once.
   */
  readonly output: Tensor;
  /**
   * [B, A, S], or [A, T] for packed samples, float32 (float64 for float64 inputs): the log of the softmax's
   * denominator, or -1e30 if a query attends to no key. Only the backward pass needs it.
   */
  readonly logSumExp?: Tensor | undefined;
  /**
   * [A], of the dtype of `logSumExp`: raised to each head's highest score, over all queries and the keys to
   * which they attend. Not supported on device cuda.
   */
  readonly highestScores?: Tensor | undefined;
  /**
   * [S, B, A, D] or [S, B, G, R, D], or [T, A, D] or [T, G, R, D] for packed samples. `query`, `key` and
   * `value` may be strided views with contiguous heads.
   */
  readonly query: Tensor;
  /** [K, B, G, D], or [T, G, D] for packed samples */
  readonly key: Tensor;
  /** [K, B, G, E], or [T, G, E] for packed samples */
  readonly value: Tensor;
}

/**
 * Returns the operands that the forward and backward operations share. `query` determines the default scale.
 */
function commonOperands(operation: string, query: Tensor, options: AttentionOptions): Operands {
  checkVisibility(operation, options);
  const { visibility = {}, scale, softCap, dropout } = options;
  return {
    ...visibilityOperands(visibility),
    samples: dropout?.samples,
    scale: scale ?? 1 / Math.sqrt(query.dim(-1)),
    softCap: softCap ?? 0,
    dropoutProbability: dropout?.probability ?? 0,
    keyLow: dropout?.keyLow ?? 0,
    keyHigh: dropout?.keyHigh ?? 0,
    headOffset: dropout?.headOffset ?? 0,
  };
}

/**
 * Declares the output [S, B, A, E] or, for packed samples, [T, A, E]. The query's heads may be in one or two
 * dimensions.
 */
function outputOfAttention({
  query,
  value,
  visibility,
}: Pick<AttentionForwardOptions, 'query' | 'value' | 'visibility'>): Required<TensorOptions> {
  const leading = query.shape.slice(0, visibility?.packed === undefined ? 2 : 1);
  const heads = query.shape.slice(leading.length, -1).reduce((product, size) => product * size, 1);
  return like(query, [...leading, heads, value.dim(-1)]);
}

/**
 * output = dropout(softmax(cap(scale * q @ k^T) + mask)) @ v, where cap is the soft cap. Never stores an S x
 * K matrix (FlashAttention, Dao et al. 2022; Dao 2023). `splitProjection` returns the parts of a packed
 * projection.
 *
 * @throws UsageError MTL_SHAPE and MTL_ARGUMENT for operands that do not fit each other
 * @throws KernelError MTL_UNSUPPORTED on device cuda if E is not D, and for a soft cap and `highestScores`
 */
export const attentionForward = returningOperation<AttentionForwardOptions, 'output'>(
  'attentionForward',
  { output: outputOfAttention },
  (options) => {
    const { output, logSumExp, highestScores, query, key, value } = options;
    const tensors = { output, logSumExp, highestScores, query, key, value };
    runOperation('attention_forward', { ...tensors, ...commonOperands('attentionForward', query, options) });
  },
);

export interface AttentionBackwardOptions extends AttentionOptions {
  /**
   * The gradients have the shapes of `query`, `key` and `value`, and may be strided, too. They have the dtype
   * of the operands, but if the operands have 16 bits, all three gradients may be float32.
   */
  readonly queryGradient: Tensor;
  readonly keyGradient: Tensor;
  readonly valueGradient: Tensor;
  /**
   * True to add to the gradients, which must then be float32 (float64 for float64 operands). Default: false.
   */
  readonly accumulate?: boolean;
  /** [S, B, A, E], or [T, A, E] for packed samples */
  readonly outputGradient: Tensor;
  /**
   * [B, A, S], or [A, T] for packed samples: `attentionRowSums` of output and outputGradient. If `rowSums`
   * and `logSumExp` are over all keys, each of several calls may compute with some of the keys and values.
   * The sum of their gradients is the complete gradient.
   */
  readonly rowSums: Tensor;
  /**
   * The log-sum-exp that the forward call computed. `query`, `key` and `value` must be the same as in the
   * forward call.
   */
  readonly logSumExp: Tensor;
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
}

/**
 * Computes the gradients of query, key and value. Recomputes the probabilities from `logSumExp`, and the
 * dropout mask from its Philox key.
 */
export const attentionBackward = checkedOperation(
  'attentionBackward',
  (options: AttentionBackwardOptions): void => {
    const { queryGradient, keyGradient, valueGradient, outputGradient, rowSums, logSumExp } = options;
    const { query, key, value, accumulate = false } = options;
    runOperation('attention_backward', {
      queryGradient,
      keyGradient,
      valueGradient,
      outputGradient,
      rowSums,
      logSumExp,
      query,
      key,
      value,
      accumulate,
      ...commonOperands('attentionBackward', query, options),
    });
  },
);

/**
 * S is the number of positions, B the micro-batch size, A the number of query heads, E the head size of
 * values, and T the number of rows of packed samples.
 */
export interface AttentionRowSumsOptions {
  /** [B, A, S], or [A, T] for packed samples, float32 (float64 for float64 operands). */
  readonly rowSums: Tensor;
  /**
   * [S, B, A, E], or [T, A, E] for packed samples: the output of `attentionForward`, in float32 or in the
   * dtype of `outputGradient`.
   */
  readonly output: Tensor;
  /** [S, B, A, E], or [T, A, E] for packed samples, like `output`. */
  readonly outputGradient: Tensor;
}

/**
 * rowSums = the sum over the head size of output times outputGradient. `attentionBackward` needs only these
 * values from the output (Dao 2023, "FlashAttention-2", algorithm 2, line 4).
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` if the tensors do not fit each other
 */
export const attentionRowSums = returningOperation<AttentionRowSumsOptions, 'rowSums'>(
  'attentionRowSums',
  {
    rowSums: ({ outputGradient }) => {
      const [rows, ...heads] = outputGradient.shape.slice(0, -1);
      return declareStatistics(outputGradient, [...heads, rows!]);
    },
  },
  ({ rowSums, output, outputGradient }) => {
    runOperation('attention_row_sums', { rowSums, output, outputGradient });
  },
);

/**
 * S is the number of query positions, B the micro-batch size, A the number of query heads, E the head size of
 * values, and T the number of rows of packed samples.
 */
export interface MergeAttentionOptions {
  /**
   * [S, B, A, E], or [T, A, E] for packed samples, float32 (float64 on device `reference`): the output over
   * the keys that are already merged. It becomes the output over these keys and the part's keys.
   */
  readonly output: Tensor;
  /**
   * [B, A, S], or [A, T] for packed samples: the logSumExp over the keys that are already merged. It becomes
   * the logSumExp over these keys and the part's keys. `logSumExp` and `partLogSumExp` may be strided views
   * whose last dimension is contiguous.
   */
  readonly logSumExp: Tensor;
  /** The output of the same queries over the part's keys, of the same shape as `output`. */
  readonly partOutput: Tensor;
  /** [B, A, S], or [A, T] for packed samples, like `logSumExp`. */
  readonly partLogSumExp: Tensor;
}

/**
 * Merges two results of `attentionForward` for the same queries over different keys, in place. The merged
 * results are over all these keys (ring attention, Liu et al. 2023). If a query has no keys in one result,
 * its merged result has the same bits as the second result.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit each other, and for outputs that
 *   share memory with the part
 */
export const mergeAttention = checkedOperation(
  'mergeAttention',
  ({ output, logSumExp, partOutput, partLogSumExp }: MergeAttentionOptions): void => {
    runOperation('merge_attention', { output, logSumExp, partOutput, partLogSumExp });
  },
);

/**
 * S is the number of new positions, B the batch size, A the number of query heads in G groups, D the head
 * size of queries and keys, E the head size of values, and M the capacity of the caches in positions.
 */
export interface AttentionCachedForwardOptions {
  /** `[B, G, M, D]`: the keys of the positions so far. The new keys are written from `position` on. */
  readonly keyCache: Tensor;
  /** `[B, G, M, E]` */
  readonly valueCache: Tensor;
  /** [S, B, A, E] */
  readonly output: Tensor;
  /** `[B, A, S]`: see `attentionForward`. */
  readonly logSumExp?: Tensor | undefined;
  /**
   * [S, B, A, D] or [S, B, G, R, D]: the queries of the new positions. `query`, `key` and `value` may be
   * strided views.
   */
  readonly query: Tensor;
  /** [S, B, G, D] */
  readonly key: Tensor;
  /** [S, B, G, E] */
  readonly value: Tensor;
  /**
   * The number of positions that are already cached; position + S may be at most M. If it is a tensor, int32
   * [1], it is read when the operation runs, so that launching a recorded graph again computes the next
   * token. A tensor is not supported together with `logSumExp`, or on device cuda.
   */
  readonly position: number | Tensor;
  /** The window of `attentionForward`. */
  readonly windowSize?: number | undefined;
  /** The factor of the scores, above 0. Default: 1 / sqrt(D). */
  readonly scale?: number;
  /** See `AttentionOptions`. */
  readonly softCap?: number | undefined;
}

/**
 * Returns a view of the first `numPositions` positions of a cache, [numPositions, B, G, D], without copying.
 */
function viewPositions(cache: Tensor, numPositions: number): Tensor {
  const [batch, groups, capacity, size] = cache.shape as [number, number, number, number];
  return cache.strided({
    shape: [numPositions, batch, groups, size],
    strides: [size, groups * capacity * size, capacity * size, 1],
  });
}

/**
 * Stores the keys and values of new positions in caches, and computes causal attention of the new queries
 * over all positions so far. This is a step of generation.
 */
export const attentionCachedForward = checkedOperation(
  'attentionCachedForward',
  (options: AttentionCachedForwardOptions): void => {
    const { keyCache, valueCache, key: newKey, value: newValue, position, windowSize, ...call } = options;
    checkVisibility('attentionCachedForward', call);
    if (typeof position !== 'number') {
      const { output, logSumExp, query, scale, softCap } = call;
      runOperation('attention_cached', {
        output,
        keyCache,
        valueCache,
        query,
        key: newKey,
        value: newValue,
        position,
        windowSize: windowSize ?? -1,
        scale: scale ?? 1 / Math.sqrt(query.dim(-1)),
        softCap: softCap ?? 0,
        // unknown to the operation, which says so
        ...(logSumExp !== undefined && { logSumExp }),
      });
      return;
    }
    runOperation('append_to_cache', { keyCache, valueCache, key: newKey, value: newValue, position });
    // without new positions, there are no queries, and the output is empty
    if (newKey.dim(0) === 0 && call.query.dim(0) === 0) return;
    const numPositions = position + newKey.dim(0);
    using key = viewPositions(keyCache, numPositions);
    using value = viewPositions(valueCache, numPositions);
    attentionForward({ ...call, key, value, visibility: { causal: true, windowSize, firstQuery: position } });
  },
);
