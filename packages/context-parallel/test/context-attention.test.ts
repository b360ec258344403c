import { runInMemoryRanks } from '@mtl/comm/testing';
import { numLiveTensors } from '@mtl/kernels';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { beforeAll, describe, expect, it } from 'vitest';
import { type AttentionCase, cases, sizes } from './attention-cases.js';
import { type AttendedRows, attend, listWays } from './ranks/attend.js';

/**
 * Bounds of the differences, relative to the largest result: sums of 32 terms of order 1 are rounded in
 * another order. For bfloat16 the bound is the last of 8 bits, since inputs and outputs are rounded to 8
 * bits, but sums are not.
 */
const bounds = { float64: 1e-13, float32: 2e-6, bfloat16: 2 ** -7 };

/** Returns rows [S, B, ...] in their order, from the rows of all processes. */
function inOrder(ranks: readonly AttendedRows[], of: 'output' | 'gradient'): readonly number[] {
  const width = ranks[0]![of].length / ranks[0]!.indices.length;
  const whole = new Array<number>(sizes.sequenceLength * sizes.batch * width).fill(Number.NaN);
  for (const { indices, [of]: values } of ranks) {
    indices.forEach((index, row) => {
      for (let at = 0; at < width; at++) whole[index * width + at] = values[row * width + at]!;
    });
  }
  return whole;
}

/** Returns the largest difference, divided by the largest value. */
function difference(left: readonly number[], right: readonly number[]): number {
  expect(left.length).toBe(right.length);
  const largest = Math.max(...right.map(Math.abs));
  return Math.max(...left.map((value, at) => Math.abs(value - right[at]!))) / largest;
}

describe.each([2, 4])('attention of sequences that %i processes share', (size) => {
  let ranks: AttendedRows[][][];
  let before: number;
  beforeAll(async () => {
    before = numLiveTensors();
    ranks = await runInMemoryRanks<AttendedRows[][]>({
      worldSize: size,
      ...rankThreads(new URL('./ranks/attend.ts', import.meta.url)),
      argument: undefined,
    });
  });

  it('leaves no tensor behind', () => {
    expect(numLiveTensors()).toBe(before);
  });

  it('gives every process two chunks that make causal attention the same work', () => {
    const pairs = ranks.map((all) => all[0]![0]!.indices.map((index) => Math.floor(index / sizes.batch) + 1));
    const sums = pairs.map((seen) => seen.reduce((sum, count) => sum + count, 0));
    expect(new Set(sums).size).toBe(1);
    expect(sums[0]! * size).toBe((sizes.batch * sizes.sequenceLength * (sizes.sequenceLength + 1)) / 2);
  });

  const all = cases.flatMap((attentionCase, index) =>
    listWays(attentionCase, size).map((way, at) => ({ ...attentionCase, index, way, at })),
  );
  it.each(all)('has the results of one process: $way, $name', ({ index, at, ...attentionCase }) => {
    const whole = attend(attentionCase);
    const own = ranks.map((results) => results[index]![at]!);
    const { dtype = 'float32', bound = bounds[dtype] } = attentionCase;
    expect(difference(inOrder(own, 'output'), whole.output)).toBeLessThan(bound);
    expect(difference(inOrder(own, 'gradient'), whole.gradient)).toBeLessThan(bound);
    if (attentionCase.sinks === undefined) return;
    // processes add up the contributions of their rows, or of their heads
    const sums = whole.sinksGradient.map((_, head) =>
      own.reduce((sum, { sinksGradient }) => sum + sinksGradient[head]!, 0),
    );
    expect(difference(sums, whole.sinksGradient)).toBeLessThan(bound);
    expect(Math.max(...whole.sinksGradient.map(Math.abs))).toBeGreaterThan(1e-3);
  });

  it('sends what the formulas of the three ways say', () => {
    const index = cases.findIndex(({ name }) => name === 'two groups of heads');
    const attentionCase = cases[index] as AttentionCase;
    const { batch, numHeads, headSize, sequenceLength } = sizes;
    const own = sequenceLength / size;
    const groups = attentionCase.numGroups!;
    // bytes of one process's own keys and values in float32
    const block = own * batch * 2 * groups * headSize * 4;
    const others = size - 1;
    // forward communicates keys and values once; backward communicates them again, and their gradients, also
    // in float32
    const travelling = { forward: others * block, backward: 2 * others * block };
    const projection = own * batch * (2 * numHeads + 2 * groups) * headSize * 4;
    const exchanged = (others / size) * projection;
    // backward communicates row sums of each position and head in place of the output
    const sums = own * batch * numHeads * 4;
    // heads are exchanged within pairs of processes; then the keys and values of one process go around the
    // pairs
    const [inPairs, round] = [projection / 2, (size / 2 - 1) * block];
    const expected = {
      all_gather: travelling,
      p2p: travelling,
      a2a: { forward: exchanged, backward: exchanged + (others / size) * sums },
      'a2a+p2p': { forward: inPairs + round, backward: inPairs + sums / 2 + 2 * round },
    };
    for (const results of ranks) {
      listWays(attentionCase, size).forEach((way, at) => {
        expect(results[index]![at]!.sentBytes, way).toEqual(expected[way]);
      });
    }
  });
});
