import { checkedOperation } from '../checked-operation.js';
import { runOperation } from '../run-operation.js';
import type { Tensor } from '../tensor.js';

export interface PhiloxNormalOptions {
  /** `[R, C]`: a part of a tensor that has `globalColumns` columns. */
  readonly output: Tensor;
  readonly mean?: number;
  readonly standardDeviation: number;
  /** 64 bits derived from the seed and the logical name, as two unsigned 32-bit halves. */
  readonly key: readonly [low: number, high: number];
  readonly globalColumns: number;
  readonly rowOffset?: number;
  readonly columnOffset?: number;
}

/**
 * Generates normally distributed values that depend only on the key and on global coordinates, so that a
 * weight has the same initial values with any sharding.
 */
export const philoxNormal = checkedOperation('philoxNormal', (options: PhiloxNormalOptions): void => {
  const {
    output,
    mean = 0,
    standardDeviation,
    key,
    globalColumns,
    rowOffset = 0,
    columnOffset = 0,
  } = options;
  const [keyLow, keyHigh] = key;
  runOperation('philox_normal', {
    output,
    mean,
    standardDeviation,
    keyLow,
    keyHigh,
    globalColumns,
    rowOffset,
    columnOffset,
  });
});
