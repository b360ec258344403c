import { checkedOperation } from '../checked-operation.js';
import { declareStatistics, like, returningOperation } from '../returning-operation.js';
import { type Operands, runOperation } from '../run-operation.js';
import type { Tensor, TensorOptions } from '../tensor.js';
import { checkVisibility, type Visibility, visibilityOperands } from './visibility.js';

/**
 * The computation of attention. D query and key head size, E value head size (E = D in most models), A query
 * heads of this process in G groups: the R = A / G heads of a group share one key and one value
 * (grouped-query attention, Ainslie et al. 2023). If G = A, every head has its own key and value. If G = 1,
 * all heads share one key and one value.
 */
export interface AttentionOptions {
  /** Default: every query sees all keys. */
  readonly visibility?: Visibility | undefined;
  /** Factor of the scores; above 0. Default: 1 / sqrt(D). */
  readonly scale?: number;
  /**
   * c: scores s become c tanh(s / c) before masks and softmax, so that they stay between -c and c (Gemma Team
   * 2024, "Gemma 2"). Default: no cap. Not on device cuda.
   */
  readonly softCap?: number | undefined;
  readonly dropout?: AttentionDropout | undefined;
}

/**
 * Dropout of attention probabilities. The decision depends on the Philox key and on the global sample number,
 * the global head and the positions of query and key in the sequence: it does not depend on packing, or on
 * the distribution of samples, heads and positions over processes and calls.
 */
export interface AttentionDropout {
  /** 0 or more and below 1; kept probabilities are multiplied by 1 / (1 - probability). */
  readonly probability: number;
  /** The two 32-bit halves of the Philox key. */
  readonly keyLow: number;
  readonly keyHigh: number;
  /** [B] int64, [N] for packed samples: global sample numbers. */
  readonly samples: Tensor;
  /** Global index of the first head, with tensor parallelism. Default: 0. */
  readonly headOffset?: number;
}

export interface AttentionForwardOptions extends AttentionOptions {
  /**
   * [S, B, A, E], packed [T, A, E]; 0 where a query sees no key. May be float32 although the operands have 16
   * bits: results that are merged with results of other keys (`mergeAttention`) are then rounded only once.
   */
  readonly output: Tensor;
  /**
   * [B, A, S], packed [A, T], float32 (float64 with float64 inputs): log of the softmax's denominator; -1e30
   * where no key is seen. Only backward needs it.
   */
  readonly logSumExp?: Tensor | undefined;
  /**
   * [A], of the dtype of `logSumExp`: raised to the highest score of each head, over all queries and the keys
   * that they see. Not on device cuda.
   */
  readonly highestScores?: Tensor | undefined;
  /**
   * [S, B, A, D] or [S, B, G, R, D], packed [T, A, D] or [T, G, R, D]. `query`, `key` and `value` may be
   * strided views with contiguous heads.
   */
  readonly query: Tensor;
  /** [K, B, G, D], packed [T, G, D] */
  readonly key: Tensor;
  /** [K, B, G, E], packed [T, G, E] */
  readonly value: Tensor;
}

/** Returns the operands of both operations from their options; `query` is needed for the default scale. */
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
 * Declares the output, [S, B, A, E] or packed [T, A, E]; the heads of the query may be in two dimensions.
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
 * output = dropout(softmax(cap(scale q k^T) + mask)) v, without ever storing an S x K matrix: Dao et al. 2022
 * (FlashAttention), Dao 2023. `splitProjection` returns the parts of a packed projection.
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
   * Gradients have the shapes of `query`, `key` and `value` and may be strided, too. They have the dtype of
   * the operands. If the operands have 16 bits, all three gradients may be float32.
   */
  readonly queryGradient: Tensor;
  readonly keyGradient: Tensor;
  readonly valueGradient: Tensor;
  /** Adds to the gradients, which are then float32 (float64 over float64). Default: false. */
  readonly accumulate?: boolean;
  /** [S, B, A, E], packed [T, A, E] */
  readonly outputGradient: Tensor;
  /**
   * [B, A, S], packed [A, T]: `attentionRowSums` of output and outputGradient. If `rowSums` and `logSumExp`
   * are over all keys, several calls may each compute with some of the keys and values. The sum of their
   * gradients is the complete gradient.
   */
  readonly rowSums: Tensor;
  /** The value of the forward call, like `query`, `key` and `value`. */
  readonly logSumExp: Tensor;
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
}

/**
 * Computes the gradients of query, key and value. Probabilities are recomputed from `logSumExp`, dropout's
 * mask from its key.
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

/** S positions, B micro-batch, A query heads, E head size of values, T rows of packed samples. */
export interface AttentionRowSumsOptions {
  /** [B, A, S], packed [A, T], float32 (float64 over float64) */
  readonly rowSums: Tensor;
  /**
   * [S, B, A, E], packed [T, A, E]: the output of `attentionForward`, in float32 or the dtype of its
   * gradient.
   */
  readonly output: Tensor;
  /** [S, B, A, E], packed [T, A, E]: like `output` */
  readonly outputGradient: Tensor;
}

/**
 * rowSums = the sum over the head size of output times its gradient: the only values of the output that
 * `attentionBackward` needs (Dao 2023, "FlashAttention-2", algorithm 2, line 4).
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit
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

/** S query positions, B micro-batch, A query heads, E head size of values, T rows of packed samples. */
export interface MergeAttentionOptions {
  /**
   * [S, B, A, E], packed [T, A, E], float32 (float64 on the reference): the output over the keys that are
   * already merged. It becomes the output over these keys and the keys of the other part.
   */
  readonly output: Tensor;
  /**
   * [B, A, S], packed [A, T]: the logSumExp over the keys that are already merged. It becomes the logSumExp
   * over these keys and the keys of the other part. `logSumExp` and `partLogSumExp` may be strided views
   * whose last dimension is contiguous.
   */
  readonly logSumExp: Tensor;
  /** The output of the same queries and other keys, of the shape of `output`. */
  readonly partOutput: Tensor;
  /** [B, A, S], packed [A, T]: like `logSumExp` */
  readonly partLogSumExp: Tensor;
}

/**
 * Merges the results of `attentionForward` over some keys with the results of the same queries over other
 * keys, in place. The merged results are over all keys (ring attention, Liu et al. 2023). If a query has no
 * keys in one part, its result has the same bits as in the other part.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, and for outputs that share
 *   memory with the part
 */
export const mergeAttention = checkedOperation(
  'mergeAttention',
  ({ output, logSumExp, partOutput, partLogSumExp }: MergeAttentionOptions): void => {
    runOperation('merge_attention', { output, logSumExp, partOutput, partLogSumExp });
  },
);

/**
 * S new positions, B batch, A query heads in G groups, D head size of queries and keys, E of values, M
 * positions that fit the caches.
 */
export interface AttentionCachedForwardOptions {
  /** `[B, G, M, D]`: keys of the positions so far; new keys are written from `position` on. */
  readonly keyCache: Tensor;
  /** `[B, G, M, E]` */
  readonly valueCache: Tensor;
  /** [S, B, A, E] */
  readonly output: Tensor;
  /** `[B, A, S]`: see `attentionForward`. */
  readonly logSumExp?: Tensor | undefined;
  /**
   * [S, B, A, D] or [S, B, G, R, D]: the new positions. `query`, `key` and `value` may be strided views.
   */
  readonly query: Tensor;
  /** [S, B, G, D] */
  readonly key: Tensor;
  /** [S, B, G, E] */
  readonly value: Tensor;
  /**
   * The number of positions that are cached already; position + S may be at most M. A tensor, int32 [1], is
   * read when the operation runs, so that a recorded graph computes one token after the other. A tensor is
   * not supported together with `logSumExp`, or on device cuda.
   */
  readonly position: number | Tensor;
  /** The window of `attentionForward`. */
  readonly windowSize?: number | undefined;
  /** Factor of the scores; above 0. Default: 1 / sqrt(D). */
  readonly scale?: number;
  /** See `AttentionOptions`. */
  readonly softCap?: number | undefined;
}

/** Returns the cached positions so far, [position + S, B, G, D], without copying. */
function viewPositions(cache: Tensor, numPositions: number): Tensor {
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
