import { checkedOperation } from '../checked-operation.js';
import { type Operands, runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

/**
 * Which keys a query sees, and what dropout drops. S sequence, B micro-batch, D head size, A query heads of
 * this process in G groups: the R = A / G heads of a group share one key and one value (grouped-query
 * attention, Ainslie et al. 2023). With G = A every head has its own, with G = 1 all share one.
 */
export interface AttentionOptions {
  /** Query s sees keys up to s only. Default: false. */
  readonly causal?: boolean;
  /** Of the scores; above 0. Default: 1 / sqrt(D). */
  readonly scale?: number;
  /**
   * [B, S] int32: query s of sample b sees keys from keyStart[b, s] on only (the first position of its
   * document).
   */
  readonly keyStart?: Tensor | undefined;
  /** [B, S] uint8: 1 where a key is real, 0 where it is padding. */
  readonly keyMask?: Tensor | undefined;
  readonly dropout?: AttentionDropout | undefined;
}

/**
 * Dropout of attention probabilities. Whether one is dropped depends on the Philox key and on the global
 * sample number, the global head, the query and the key: never on how samples and heads are distributed over
 * processes.
 */
export interface AttentionDropout {
  /** 0 or more and below 1; kept probabilities are multiplied by 1 / (1 - probability). */
  readonly probability: number;
  /** The two 32-bit halves of the Philox key. */
  readonly keyLow: number;
  readonly keyHigh: number;
  /** [B] int64: global sample numbers. */
  readonly samples: Tensor;
  /** Global index of the first head, with tensor parallelism. Default: 0. */
  readonly headOffset?: number;
}

export interface AttentionForwardOptions extends AttentionOptions {
  /** [S, B, A, D]; 0 where a query sees no key. */
  readonly output: Tensor;
  /**
   * [B, A, S] float32 (float64 with float64 inputs): log of the softmax's denominator; -1e30 where no key is
   * seen.
   */
  readonly logSumExp: Tensor;
  /** [S, B, A, D] or [S, B, G, R, D]. This, key and value may be strided views with contiguous heads. */
  readonly query: Tensor;
  /** [S, B, G, D] */
  readonly key: Tensor;
  /** [S, B, G, D] */
  readonly value: Tensor;
}

/** What both operations take of their options; the default scale needs the query. */
function commonOperands(query: Tensor, options: AttentionOptions): Operands {
  const { keyStart, keyMask, causal = false, scale, dropout } = options;
  return {
    keyStart,
    keyMask,
    samples: dropout?.samples,
    causal,
    scale: scale ?? 1 / Math.sqrt(query.dim(-1)),
    dropoutProbability: dropout?.probability ?? 0,
    keyLow: dropout?.keyLow ?? 0,
    keyHigh: dropout?.keyHigh ?? 0,
    headOffset: dropout?.headOffset ?? 0,
  };
}

/**
 * output = dropout(softmax(scale q k^T + mask)) v, without ever storing an S x S matrix: Dao et al. 2022
 * (FlashAttention), Dao 2023. `splitProjection` gives the parts of a packed projection.
 */
export const attentionForward = checkedOperation(
  'attentionForward',
  (options: AttentionForwardOptions): void => {
    const { output, logSumExp, query, key, value } = options;
    const tensors = { output, logSumExp, query, key, value };
    runOperation('attention_forward', { ...tensors, ...commonOperands(query, options) });
  },
);

export interface AttentionBackwardOptions extends AttentionOptions {
  /** Gradients have the shapes of `query`, `key` and `value` and may be strided, too. */
  readonly queryGradient: Tensor;
  readonly keyGradient: Tensor;
  readonly valueGradient: Tensor;
  /** [S, B, A, D] */
  readonly outputGradient: Tensor;
  /** `output`, `logSumExp`, `query`, `key` and `value` of the forward call. */
  readonly output: Tensor;
  readonly logSumExp: Tensor;
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
}

/**
 * The gradients of query, key and value. Probabilities are recomputed from `logSumExp`, dropout's mask from
 * its key.
 */
export const attentionBackward = checkedOperation(
  'attentionBackward',
  (options: AttentionBackwardOptions): void => {
    const { queryGradient, keyGradient, valueGradient, outputGradient, output, logSumExp } = options;
    const { query, key, value } = options;
    runOperation('attention_backward', {
      queryGradient,
      keyGradient,
      valueGradient,
      outputGradient,
      output,
      logSumExp,
      query,
      key,
      value,
      ...commonOperands(query, options),
    });
  },
);

export interface AttentionCachedForwardOptions {
  /** `[B, G, M, D]`: keys of the positions so far; the new ones are written at `position` and after. */
  readonly keyCache: Tensor;
  /** `[B, G, M, D]` */
  readonly valueCache: Tensor;
  /** [Q, B, A, D] */
  readonly output: Tensor;
  /** `[Q, B, G, R + 2, D]`: the new positions. */
  readonly qkv: Tensor;
  /** Positions that are cached already; position + Q may be M at most. */
  readonly position: number;
  /** Of the scores; above 0. Default: 1 / sqrt(D). */
  readonly scale?: number;
}

/**
 * Causal attention of Q new positions over all positions so far, which the caches hold: a step of generation.
 */
export const attentionCachedForward = checkedOperation(
  'attentionCachedForward',
  (options: AttentionCachedForwardOptions): void => {
    const { keyCache, valueCache, output, qkv, position, scale = 1 / Math.sqrt(qkv.dim(-1)) } = options;
    runOperation('attention_cached_forward', { keyCache, valueCache, output, qkv, position, scale });
  },
);
