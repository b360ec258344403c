import { runInMemoryRanks } from '@mtl/comm/testing';
import { numLiveTensors } from '@mtl/kernels';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ExpertsOnRanks, ExpertsResult } from './ranks/experts-on-ranks.js';

const model = {
  numExperts: 4,
  moeFfnHiddenSize: 24,
  addBiasLinear: false,
  moeSharedExpertIntermediateSize: 16,
};
const gated = { ...model, moeSharedExpertGate: true, swiglu: true };
const moments = ['start', 'between', 'wait'] as const;
const [spread, divided] = [
  { ep: 2, etp: 1 },
  { ep: 1, etp: 2 },
];

const layouts: readonly (ExpertsOnRanks & { readonly what: string })[] = [
  { what: 'all-to-all', sizes: spread, dispatcher: 'alltoall', model, moments },
  { what: 'all-to-all, bfloat16', sizes: spread, dispatcher: 'alltoall', model, dtype: 'bfloat16', moments },
  { what: 'all-to-all, a gate', sizes: spread, dispatcher: 'alltoall', model: gated, moments },
  {
    what: 'all-to-all, shared experts recomputed',
    sizes: spread,
    dispatcher: 'alltoall',
    model: gated,
    recomputation: { granularity: 'selective', modules: ['shared_experts'] },
    moments,
  },
  {
    what: 'all-to-all, layers recomputed',
    sizes: spread,
    dispatcher: 'alltoall',
    model,
    recomputation: { granularity: 'full', method: 'uniform', numLayers: 1 },
    moments,
  },
  { what: 'all-gather', sizes: spread, dispatcher: 'allgather', model, moments },
  { what: 'divided experts', sizes: divided, dispatcher: 'alltoall', model, moments },
  { what: 'divided experts by all-gather', sizes: divided, dispatcher: 'allgather', model: gated, moments },
];

describe('shared experts during the exchanges of rows', () => {
  let ranks: (readonly ExpertsResult[])[][];
  let before: number;
  beforeAll(async () => {
    before = numLiveTensors();
    ranks = await runInMemoryRanks<(readonly ExpertsResult[])[]>({
      worldSize: 2,
      ...rankThreads(new URL('./ranks/experts-on-ranks.ts', import.meta.url)),
      argument: layouts,
    });
  });

  it('leave no tensor behind', () => {
    expect(numLiveTensors()).toBe(before);
  });

  it.each(layouts.map(({ what }, index) => ({ what, index })))(
    'are the same bits whenever rows arrive: $what',
    ({ index }) => {
      for (const results of ranks) {
        const [atStart, between, inWait] = results[index]!;
        expect(between).toEqual(atStart);
        expect(inWait).toEqual(atStart);
        const shared = Object.entries(atStart!.gradients).filter(([name]) => name.includes('shared_experts'));
        expect(shared.length).toBeGreaterThanOrEqual(4);
        for (const [name, values] of shared) expect(Math.hypot(...values), name).toBeGreaterThan(0);
      }
    },
  );
});
