import type { DType } from '../../src/index.js';
import type { Tolerance } from './op-case.js';

/**
 * The largest differences between a kernel and the reference, which computes in double and rounds once.
 * float32: sums of a few hundred terms in another order (sqrt(n) * 2^-24, times a margin) and exp/tanh to 2
 * ulp.
 * bfloat16: both sides round the result to 8 bits, so they may land on neighbours: one unit in the last place
 * (2^-8).
 */
export const defaultTolerances: Readonly<Partial<Record<DType, Tolerance>>> = {
  float32: { absolute: 2e-6, relative: 2e-6 },
  bfloat16: { absolute: 1e-3, relative: 2 ** -7 },
  float16: { absolute: 1e-4, relative: 2 ** -10 },
  int32: { absolute: 0, relative: 0 },
  uint8: { absolute: 0, relative: 0 },
};

/** The largest differences between attention and the reference, padded and packed. */
export const attentionTolerances = {
  forward: {
    // Probabilities are rounded to bfloat16 before they are multiplied with the values, as FlashAttention
    // does; with the rounding of the result that is 2^-9 of the largest value in the mean, which cancels, and
    // 2^-8 of the result.
    bfloat16: { absolute: 1.5e-2, relative: 2 ** -7 },
    // float32 arithmetic; a few units more than the default because exponents are sums over the head size.
    float32: { absolute: 4e-6, relative: 4e-6 },
    float16: { absolute: 1e-3, relative: 2 ** -10 },
    reason:
      'results are means of N(0, 1) values, so cancellation makes the error relative to 1, not to the result',
  },
  backward: {
    float32: { absolute: 2e-5, relative: 1e-5 },
    bfloat16: { absolute: 6e-2, relative: 2 ** -6 },
    float16: { absolute: 4e-3, relative: 2 ** -9 },
    reason:
      'gradients are sums over the sequence of products of N(0, 1) values and of probability gradients minus their mean: the error is relative to the terms',
  },
};
