import { attentionCachedForward, attentionForward, splitProjection, tidy } from '../../src/index.js';
import type { OpCase } from './op-case.js';

/** Q new positions after `position` cached ones, in caches of M positions. */
interface Step {
  readonly queries: number;
  readonly position: number;
  readonly capacity: number;
  readonly batch: number;
  readonly heads: number;
  readonly headSize: number;
  /** The number of query heads that share a cached key and value. Default: 1. */
  readonly headsPerGroup?: number;
  readonly windowSize?: number;
}

const steps: Step[] = [
  { queries: 1, position: 0, capacity: 4, batch: 1, heads: 2, headSize: 16 },
  { queries: 1, position: 131, capacity: 140, batch: 2, heads: 1, headSize: 20 },
  // one query has a separate code path: cases of whole tiles of keys, and of head sizes of whole and of
  // single vectors for each width
  { queries: 1, position: 63, capacity: 64, batch: 1, heads: 3, headSize: 64 },
  { queries: 1, position: 256, capacity: 300, batch: 2, heads: 3, headSize: 83 },
  { queries: 70, position: 0, capacity: 70, batch: 1, heads: 2, headSize: 64 },
  { queries: 5, position: 62, capacity: 100, batch: 2, heads: 2, headSize: 33 },
  { queries: 66, position: 30, capacity: 128, batch: 1, heads: 1, headSize: 8 },
  { queries: 1, position: 131, capacity: 140, batch: 2, heads: 6, headSize: 20, headsPerGroup: 3 },
  { queries: 5, position: 62, capacity: 100, batch: 2, heads: 4, headSize: 33, headsPerGroup: 2 },
  {
    queries: 1,
    position: 99,
    capacity: 100,
    batch: 2,
    heads: 4,
    headSize: 33,
    headsPerGroup: 2,
    windowSize: 40,
  },
  {
    queries: 5,
    position: 92,
    capacity: 100,
    batch: 2,
    heads: 4,
    headSize: 33,
    headsPerGroup: 2,
    windowSize: 40,
  },
];

function cachedCase(step: Step): OpCase {
  const { queries, position, capacity, batch, heads, headSize, headsPerGroup = 1, windowSize } = step;
  const groups = heads / headsPerGroup;
  return {
    name: `attention_forward cached ${queries} after ${position} [${[batch, heads, capacity, headSize]}] in groups of ${headsPerGroup}${windowSize === undefined ? '' : `, window ${windowSize}`}`,
    operation: 'attention_forward',
    tensors: {
      // Values beyond the position do not matter: they stay as they are or are overwritten.
      keyCache: { shape: [batch, groups, capacity, headSize], output: true, accumulated: true },
      valueCache: { shape: [batch, groups, capacity, headSize], output: true, accumulated: true },
      output: { shape: [queries, batch, heads, headSize], output: true },
      qkv: { shape: [queries, batch, groups, headsPerGroup + 2, headSize] },
    },
    run: ({ keyCache, valueCache, output, qkv }) =>
      tidy(() =>
        attentionCachedForward({
          keyCache: keyCache!,
          valueCache: valueCache!,
          output: output!,
          ...splitProjection(qkv!),
          position,
          windowSize,
        }),
      ),
    dtypes: ['float32', 'bfloat16', 'float16'],
    tolerance: {
      float32: { absolute: 4e-6, relative: 4e-6 },
      // probabilities are rounded to bfloat16 before they are multiplied with the values
      bfloat16: { absolute: 1.5e-2, relative: 2 ** -7 },
      float16: { absolute: 1e-3, relative: 2 ** -10 },
      reason: 'results are means of N(0, 1) values: the error is relative to 1, not to the result',
    },
  };
}

/** Without logSumExp, as a cache is read: the keys end before the windows of the last two of four queries. */
const blind: OpCase = {
  name: 'attention_forward without logSumExp, queries without visible keys',
  operation: 'attention_forward',
  tensors: {
    output: { shape: [4, 1, 2, 8], output: true },
    query: { shape: [4, 1, 2, 8] },
    key: { shape: [2, 1, 1, 8] },
    value: { shape: [2, 1, 1, 8] },
  },
  run: ({ output, query, key, value }) =>
    attentionForward({
      output: output!,
      query: query!,
      key: key!,
      value: value!,
      visibility: { causal: true, windowSize: 0 },
    }),
};

const decode: Step = { queries: 1, position: 1023, capacity: 1024, batch: 8, heads: 12, headSize: 64 };

export const cases: readonly OpCase[] = [
  ...steps.map(cachedCase),
  blind,
  {
    ...cachedCase(decode),
    benchmark: { elements: 2 * decode.batch * decode.heads * (decode.position + 1) * decode.headSize },
  },
];
