import { runInMemoryRanks } from '@mtl/comm/testing';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { beforeAll, describe, expect, it } from 'vitest';
import type { SeamsLayout } from './ranks/seams-on-ranks.js';
import { type SeamsCurve, trainWithSeams } from './train-with-seams.js';

const layouts: readonly SeamsLayout[] = [
  { dp: 4, ep: 2, store: 'replicated' },
  { cp: 2, dp: 2, ep: 2, store: 'zero1', splitAndRecomputed: true },
  ...inWholeRuns<SeamsLayout[]>(
    { dp: 4, ep: 4, store: 'zero1', splitAndRecomputed: true },
    { cp: 2, dp: 2, ep: 2, store: 'replicated', communication: 'all_gather' },
    { cp: 4, ep: 4, store: 'zero1' },
  ),
  { cp: 4, ep: 2, store: 'zero1', communication: 'a2a' },
  { tp: 2, cp: 2, ep: 2, store: 'zero1', communication: 'all_gather' },
  { tp: 2, dp: 2, ep: 4, store: 'replicated', splitAndRecomputed: true },
  { cp: 2, dp: 2, ep: 2, store: 'zero1', sumsExpertsOverDense: true },
];

describe('experts and a store that only tests have, and sequences that ranks share', () => {
  let whole: SeamsCurve;
  let ranks: SeamsCurve[][];
  beforeAll(async () => {
    whole = trainWithSeams({ groups: {}, kind: 'replicated' });
    ranks = await runInMemoryRanks<SeamsCurve[]>({
      worldSize: 4,
      ...rankThreads(new URL('./ranks/seams-on-ranks.ts', import.meta.url)),
      argument: layouts,
      timeoutMs: 60_000,
    });
  });

  /** The largest relative differences of losses and norms from one process. */
  const difference = (index: number): { loss: number; norm: number } => {
    const largest = (of: 'losses' | 'norms'): number =>
      Math.max(
        ...ranks.flatMap((curves) =>
          curves[index]![of].map((value, step) => Math.abs(value / whole[of][step]! - 1)),
        ),
      );
    return { loss: largest('losses'), norm: largest('norms') };
  };

  it('learn in one process', () => {
    expect(whole.losses.at(-1)).toBeLessThan(whole.losses[0]! - 1);
  });

  it.each(layouts.map((layout, index) => ({ ...layout, index })).slice(0, -1))(
    'train on 4 ranks with the curve of one process: tp $tp, cp $cp, dp $dp, ep $ep, $store, $splitAndRecomputed, $communication',
    ({ index, ep }) => {
      // as parity bounds layouts: float32 rounding of sums in another order
      const { loss, norm } = difference(index);
      expect(loss).toBeLessThan(2e-6);
      expect(norm).toBeLessThan(2e-5);
      // every rank has its experts
      const sizes = ranks.map((curves) => {
        const { first } = curves[index]!.weights.find(({ name }) => name.includes('experts'))!;
        return first.end - first.start;
      });
      expect(sizes).toEqual([0, 1, 2, 3].map(() => 4 / ep));
    },
  );

  it('differ where the gradients of experts are summed over the wrong ranks', () => {
    expect(difference(layouts.length - 1).norm).toBeGreaterThan(1e-3);
  });
});
