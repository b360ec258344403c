import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sampleMicroBatches } from '../index.js';

function take<T>(iterator: Iterable<T>, count: number): T[] {
  const taken: T[] = [];
  for (const item of iterator) {
    if (taken.length === count) break;
    taken.push(item);
  }
  return taken;
}

describe('sampleMicroBatches', () => {
  it('gives each rank a contiguous slice of each chunk', () => {
    const options = { kind: 'single', totalSamples: 13, microBatchSize: 2 } as const;
    const listSamples = (index: number, consumedSamples = 0) => [
      ...sampleMicroBatches({ ...options, shareOfBatch: { index, count: 3 }, consumedSamples }),
    ];
    expect(listSamples(0)).toEqual([
      [0, 1],
      [6, 7],
    ]);
    expect(listSamples(2)).toEqual([
      [4, 5],
      [10, 11],
    ]);
    expect(listSamples(1, 6)).toEqual([[8, 9]]);
  });

  it('takes the share of a batch by its names of before, but not by both', () => {
    const options = { kind: 'single', totalSamples: 13, microBatchSize: 2 } as const;
    const before = { dataParallelRank: 1, dataParallelSize: 3 };
    expect([...sampleMicroBatches({ ...options, ...before })]).toEqual([
      [2, 3],
      [8, 9],
    ]);
    expect(() => [
      ...sampleMicroBatches({ ...options, ...before, shareOfBatch: { index: 1, count: 3 } }),
    ]).toThrow(expect.objectContaining({ code: 'MTL_DATA_SAMPLER' }));
  });

  it('leaves out the same samples of an epoch under any layout, if asked to', () => {
    const epoch = (microBatchSize: number, count: number, consumedSamples = 0) => {
      const options = { microBatchSize, consumedSamples, epochMultiple: 8, seed: 3 };
      const ranks = Array.from({ length: count }, (_, index) =>
        take(
          sampleMicroBatches({
            kind: 'cyclic',
            totalSamples: 22,
            ...options,
            shareOfBatch: { index, count },
          }),
          16 / (microBatchSize * count),
        ),
      );
      // the samples step by step; each step contains the micro-batches of all ranks
      return ranks[0]!.flatMap((_, index) => ranks.flatMap((batches) => batches[index]!));
    };
    const [first, second] = [epoch(8, 1), epoch(8, 1, 16)];
    expect(new Set(first).size).toBe(16);
    expect(second).not.toEqual(first);
    expect(epoch(1, 2)).toEqual(first);
    expect(epoch(4, 2, 16)).toEqual(second);
    expect(epoch(2, 4, 16)).toEqual(second);
    // These samples are in the middle of the second epoch.
    expect(epoch(2, 1, 24).slice(0, 8)).toEqual(second.slice(8));
  });

  it.each([[6], [12.5], [24]])(
    'refuses epochs of a multiple of %s samples where they do not fit',
    (epochMultiple) => {
      const options = { kind: 'cyclic', totalSamples: 22, microBatchSize: 4, epochMultiple } as const;
      expect(() => sampleMicroBatches(options).next()).toThrow(
        expect.objectContaining({ code: 'MTL_DATA_SAMPLER' }),
      );
    },
  );

  it.each(['single', 'cyclic'] as const)('shares out the same samples whatever the layout (%s)', (kind) => {
    fc.assert(
      fc.property(
        fc.constantFrom(1, 2, 4),
        fc.constantFrom(1, 2, 4),
        fc.nat({ max: 5 }),
        (ranks, perRank, seed) => {
          const globalBatch = 16;
          const micro = perRank;
          const steps = 5;
          const shared = Array.from({ length: ranks }, (_, index) =>
            take(
              sampleMicroBatches({
                kind,
                totalSamples: 96,
                microBatchSize: micro,
                shareOfBatch: { index, count: ranks },
                seed,
              }),
              (steps * globalBatch) / (micro * ranks),
            ).flat(),
          );
          const reference = take(
            sampleMicroBatches({ kind, totalSamples: 96, microBatchSize: globalBatch, seed }),
            steps,
          );
          for (let step = 0; step < steps; step++) {
            const perStep = globalBatch / ranks;
            const samples = shared.flatMap((rank) => rank.slice(step * perStep, (step + 1) * perStep));
            expect(samples.sort((a, b) => a - b)).toEqual(reference[step]!.sort((a, b) => a - b));
          }
        },
      ),
    );
  });

  it.each(['single', 'cyclic'] as const)('goes on where it stopped (%s)', (kind) => {
    const options = {
      kind,
      totalSamples: 50,
      microBatchSize: 2,
      shareOfBatch: { index: 1, count: 2 },
      seed: 3,
    };
    const whole = take(sampleMicroBatches(options), 12);
    expect(take(sampleMicroBatches({ ...options, consumedSamples: 20 }), 7)).toEqual(whole.slice(5));
  });

  it('permutes every epoch anew, each sample once', () => {
    const epochs = take(
      sampleMicroBatches({ kind: 'cyclic', totalSamples: 20, microBatchSize: 20, seed: 1 }),
      3,
    );
    for (const epoch of epochs)
      expect([...epoch].sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(epochs[0]).not.toEqual(epochs[1]);
    expect(epochs[1]).not.toEqual(epochs[2]);
  });

  it.each([
    { microBatchSize: 0 },
    { shareOfBatch: { index: 0, count: 0 } },
    { shareOfBatch: { index: 1, count: 1 } },
    { totalSamples: 1 },
    { consumedSamples: 10 },
    { consumedSamples: -1 },
    { kind: 'cyclic' as const, consumedSamples: 1 },
    // JavaScript callers can pass this kind, which TypeScript rejects. Without the check, the sampler would
    // never end
    { kind: 'random' as 'cyclic' },
  ])('refuses %j', (change) => {
    const options = { kind: 'single' as const, totalSamples: 10, microBatchSize: 2, ...change };
    expect(() => take(sampleMicroBatches(options), 1)).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_SAMPLER' }),
    );
  });
});
