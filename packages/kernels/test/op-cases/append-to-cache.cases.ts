import { tidy } from '../../src/index.js';
import { runOperation } from '../../src/run-operation.js';
import { type AttentionCase, part, projectedSpecs, viewOperands } from '../support/attention-case.js';
import type { OpCase } from './op-case.js';

/** The sizes of a call: S new positions, stored from `position` on in caches of M positions. */
interface Sizes {
  readonly positions: number;
  readonly position: number;
  readonly capacity: number;
  readonly batch: number;
  readonly groups: number;
  readonly headSize: number;
  /** Default: the head size. */
  readonly valueSize?: number;
}

function appendCase(sizes: Sizes): OpCase {
  const { positions, position, capacity, batch, groups, headSize, valueSize = headSize } = sizes;
  const range = [position, position + positions] as const;
  const one: AttentionCase = {
    name: '',
    ...part(range, range, batch),
    heads: 2 * groups,
    headsPerGroup: 2,
    headSize,
    valueSize,
    memory: 'projection',
  };
  const declareCache = (size: number) => ({
    shape: [batch, groups, capacity, size],
    output: true,
    accumulated: true,
  });
  return {
    name: `append_to_cache ${positions} at ${position} [${[batch, groups, capacity, headSize, valueSize]}]`,
    operation: 'append_to_cache',
    tensors: {
      keyCache: declareCache(headSize),
      valueCache: declareCache(valueSize),
      ...projectedSpecs(one),
    },
    run: (tensors) =>
      tidy(() => {
        const { key, value } = viewOperands(one, tensors);
        runOperation('append_to_cache', {
          keyCache: tensors.keyCache!,
          valueCache: tensors.valueCache!,
          key,
          value,
          position,
        });
      }),
    dtypes: ['float32', 'bfloat16', 'float16'],
    tolerance: {
      float32: { absolute: 0, relative: 0 },
      bfloat16: { absolute: 0, relative: 0 },
      float16: { absolute: 0, relative: 0 },
      reason: 'values are copied',
    },
  };
}

export const cases: readonly OpCase[] = [
  appendCase({ positions: 1, position: 0, capacity: 3, batch: 1, groups: 1, headSize: 1 }),
  appendCase({ positions: 4, position: 5, capacity: 9, batch: 2, groups: 3, headSize: 19 }),
  appendCase({ positions: 70, position: 10, capacity: 100, batch: 2, groups: 4, headSize: 64 }),
  appendCase({ positions: 5, position: 3, capacity: 9, batch: 2, groups: 3, headSize: 19, valueSize: 33 }),
];
