import { checkedOperation } from '../checked-operation.js';
import { type Operands, runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';
import type { AttentionDropout } from './attention.js';

/** Samples that lie one after the other, without padding, in T rows. */
export interface PackedSamples {
  /**
   * [N + 1] int32: sample n has the rows starts[n] to starts[n + 1]; rows from starts[N] on belong to no
   * sample.
   */
  readonly starts: Tensor;
  /** No sample has more rows. */
  readonly longest: number;
  /** The sum of the squares of all lengths: how many scores there are, for counting FLOPs. */
  readonly numScores: number;
}

export interface PackedAttentionOptions {
  readonly packed: PackedSamples;
  /** Of the scores; above 0. Default: 1 / sqrt(D). */
  readonly scale?: number;
  /**
   * As that of `attentionForward`, with the samples [N]; drops what it drops of the same samples with
   * padding.
   */
  readonly dropout?: AttentionDropout | undefined;
}

export interface PackedAttentionForwardOptions extends PackedAttentionOptions {
  /** [T, A, D] */
  readonly output: Tensor;
  /** [A, T] float32 (float64 with float64 inputs): log of the softmax's denominator. */
  readonly logSumExp: Tensor;
  /**
   * `[T, G, R + 2, D]`: the queries of each group of heads, then its key and its value, as in
   * `attentionForward`.
   */
  readonly qkv: Tensor;
}

/** What both operations take. */
function commonOperands(qkv: Tensor, { packed, scale, dropout }: PackedAttentionOptions): Operands {
  const { starts, longest, numScores } = packed;
  return {
    qkv,
    starts,
    samples: dropout?.samples,
    scale: scale ?? 1 / Math.sqrt(qkv.dim(-1)),
    dropoutProbability: dropout?.probability ?? 0,
    keyLow: dropout?.keyLow ?? 0,
    keyHigh: dropout?.keyHigh ?? 0,
    headOffset: dropout?.headOffset ?? 0,
    longest,
    numScores,
  };
}

/**
 * Attention without padding: every position sees all positions of its own sample. The numbers are those of
 * `attentionForward` over the same samples with a key mask.
 */
export const packedAttentionForward = checkedOperation(
  'packedAttentionForward',
  (options: PackedAttentionForwardOptions): void => {
    const { output, logSumExp, qkv } = options;
    runOperation('packed_attention_forward', { output, logSumExp, ...commonOperands(qkv, options) });
  },
);

export interface PackedAttentionBackwardOptions extends PackedAttentionOptions {
  /** `[T, G, R + 2, D]` */
  readonly qkvGradient: Tensor;
  /** [T, A, D] */
  readonly outputGradient: Tensor;
  /** `output`, `logSumExp` and `qkv` of the forward call. */
  readonly output: Tensor;
  readonly logSumExp: Tensor;
  readonly qkv: Tensor;
}

/** The gradient of qkv, 0 in rows that belong to no sample. */
export const packedAttentionBackward = checkedOperation(
  'packedAttentionBackward',
  (options: PackedAttentionBackwardOptions): void => {
    const { qkvGradient, outputGradient, output, logSumExp, qkv } = options;
    const tensors = { qkvGradient, outputGradient, output, logSumExp };
    runOperation('packed_attention_backward', { ...tensors, ...commonOperands(qkv, options) });
  },
);
