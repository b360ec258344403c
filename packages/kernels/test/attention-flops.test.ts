import { afterEach, expect, it } from 'vitest';
import { countedFlops, resetCountedFlops } from '../src/index.js';
import { type AttentionCase, packed, packedParts, padded } from './support/attention-case.js';
import { attend, attentionValues } from './support/attention-run.js';

// Model FLOPs of Narayanan et al. 2021: all scores of causal attention count, in 2 matmuls of the forward and
// 4 of the backward pass. Half of these have D terms for a score, half E.

afterEach(resetCountedFlops);

const causal = true;
const windowSize = 1;

it.each<[string, number, Omit<AttentionCase, 'name' | 'heads' | 'headSize'>]>([
  ['all keys of a sequence', 2 * 10 ** 2, { ...padded(10, 2), causal }],
  ['the keys of a window', 2 * 4 * 2, { ...padded(4, 2), causal, windowSize }],
  ['packed samples', 130 ** 2 + 1 + 65 ** 2, packed([130, 1, 65], 5)],
  [
    'parts of packed samples',
    20 * 40 + 2 * 6,
    packedParts(
      [
        [0, 20, 0, 40],
        [4, 6, 0, 6],
      ],
      [1, 0],
    ),
  ],
])('attention counts the FLOPs of %s', (_, numScores, samples) => {
  for (const valueSize of [4, 7]) {
    const one = { name: '', heads: 3, headSize: 4, valueSize, ...samples };
    resetCountedFlops();
    attend(one, attentionValues(one));
    expect(countedFlops(), `E = ${valueSize}`).toBe(3 * 2 * 3 * (4 + valueSize) * numScores);
  }
});
