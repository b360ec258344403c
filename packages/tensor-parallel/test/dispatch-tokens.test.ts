import { runInMemoryRanks } from '@mtl/comm/testing';
import { numLiveTensors } from '@mtl/kernels';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { beforeAll, describe, expect, it } from 'vitest';
import { computeAlone, type DispatchedResult, type DispatchLayout } from './ranks/compare-dispatch.js';

const sizes = [
  { ep: 4, etp: 1 },
  { ep: 2, etp: 1 },
  { ep: 2, etp: 2 },
  { ep: 1, etp: 4 },
] as const;
const choices = ['mixed', 'one expert', 'first half'] as const;
const layouts: readonly DispatchLayout[] = (['alltoall', 'allgather'] as const).flatMap((dispatcher) =>
  sizes.flatMap((size) => choices.map((choice) => ({ ...size, dispatcher, choice }))),
);

const largestDifference = (left: readonly number[], right: readonly number[]): number => {
  expect(left.length).toBe(right.length);
  return Math.max(0, ...left.map((value, index) => Math.abs(value - right[index]!)));
};

const addRows = (all: ReadonlyArray<readonly number[]>): readonly number[] =>
  all[0]!.map((_, index) => all.reduce((sum, values) => sum + values[index]!, 0));

/**
 * Joins the weight gradients of all ranks to [E, N, K] for all experts. If features are sharded, each rank
 * has one of several shares of dimension 1 or 2.
 */
function assembled(
  ranks: readonly DispatchedResult[],
  { ep, etp, of }: Pick<DispatchLayout, 'ep' | 'etp'> & { readonly of: 0 | 1 },
): readonly number[] {
  const [width, hidden, numExperts] = [8, 6, 4];
  const [rows, columns] = of === 0 ? [width, hidden] : [hidden, width];
  const shared = of === 0 ? rows : columns;
  const whole = new Array<number>(numExperts * rows * columns).fill(0);
  ranks.forEach(({ weightGradients }, rank) => {
    const [share, place] = [rank % etp, Math.floor(rank / etp) % ep];
    const [perPlace, perShare] = [numExperts / ep, shared / etp];
    const [ownRows, ownColumns] = of === 0 ? [perShare, columns] : [rows, perShare];
    weightGradients[of]!.forEach((value, index) => {
      const column = (index % ownColumns) + (of === 0 ? 0 : share * perShare);
      const row = (Math.floor(index / ownColumns) % ownRows) + (of === 0 ? share * perShare : 0);
      const expert = Math.floor(index / (ownColumns * ownRows)) + place * perPlace;
      // ranks with the same experts have partial sums
      whole[(expert * rows + row) * columns + column]! += value;
    });
  });
  return whole;
}

describe('rows at experts on four ranks', () => {
  let ranks: DispatchedResult[][];
  let before: number;
  beforeAll(async () => {
    before = numLiveTensors();
    ranks = await runInMemoryRanks<DispatchedResult[]>({
      worldSize: 4,
      ...rankThreads(new URL('./ranks/compare-dispatch.ts', import.meta.url)),
      argument: layouts,
    });
  });

  it('leave no tensor behind', () => {
    expect(numLiveTensors()).toBe(before);
  });

  it.each(layouts.map((layout, index) => ({ ...layout, index })))(
    'are computed as in one process: ep $ep, etp $etp, $dispatcher, $choice',
    ({ index, choice, ...layout }) => {
      const alone = computeAlone(choice);
      const own = ranks.map((results) => results[index]!);
      const joined = (of: 'output' | 'inputGradient' | 'probabilitiesGradient') =>
        own.flatMap((result) => result[of]);
      // float32 sums of up to 8 products of order 1, in another order
      for (const of of ['output', 'inputGradient', 'probabilitiesGradient'] as const) {
        expect(largestDifference(joined(of), alone[of]), of).toBeLessThan(2e-6);
      }
      for (const of of [0, 1] as const) {
        const whole = assembled(own, { ...layout, of });
        expect(largestDifference(whole, alone.weightGradients[of]!), `weight ${of}`).toBeLessThan(4e-6);
      }
      expect(addRows(own.map(({ load }) => load))).toEqual(alone.load);
    },
  );

  it('are not all alike', () => {
    const { output, load } = computeAlone('mixed');
    // the third and the sixth row drop experts, and every expert gets some rows
    expect(output.slice(5 * 6, 6 * 6)).toEqual([0, 0, 0, 0, 0, 0]);
    expect(load.at(-1)).toBe(2 * 12 - 3);
    expect(new Set(load).size).toBe(5);
    expect(computeAlone('one expert').load.slice(0, 4)).not.toContain(undefined);
  });
});
