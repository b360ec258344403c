import type { DType } from '../../src/index.js';
import type { Tolerance } from './op-case.js';

/**
 * What a kernel may differ from the reference by, which computes in double and rounds once.
 * float32: sums of a few hundred terms in another order (sqrt(n) * 2^-24, times a margin) and exp/tanh to 2 ulp.
 * bfloat16: both sides round the result to 8 bits, so they may land on neighbours: one unit in the last place (2^-8).
 */
export const defaultTolerances: Readonly<Partial<Record<DType, Tolerance>>> = {
  float32: { absolute: 2e-6, relative: 2e-6 },
  bfloat16: { absolute: 1e-3, relative: 2 ** -7 },
  float16: { absolute: 1e-4, relative: 2 ** -10 },
  int32: { absolute: 0, relative: 0 },
  uint8: { absolute: 0, relative: 0 },
};
