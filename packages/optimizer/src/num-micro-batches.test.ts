import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NumMicroBatches, type NumMicroBatchesOptions } from './num-micro-batches.js';

describe('NumMicroBatches', () => {
  it('cuts a constant global batch', () => {
    const batches = new NumMicroBatches({ globalBatchSize: 24, microBatchSize: 4, numShares: 2 });
    expect(batches.at(0)).toEqual({ globalBatchSize: 24, numMicroBatches: 3 });
    expect(batches.at(1e9)).toEqual({ globalBatchSize: 24, numMicroBatches: 3 });
    expect(batches.iterationsFor(100)).toBe(4);
    expect(batches.samplesAfter(4)).toBe(96);
  });

  it('takes the number of shares by its name of before', () => {
    const batches = new NumMicroBatches({ globalBatchSize: 24, microBatchSize: 4, dataParallelSize: 2 });
    expect(batches.at(0).numMicroBatches).toBe(3);
  });

  it("ramps up as in the help text of Megatron's flag", () => {
    // 16 8 300000 to 1024: 126 increments of 2,380.95 samples each.
    const batches = new NumMicroBatches({
      globalBatchSize: 1024,
      microBatchSize: 8,
      numShares: 1,
      rampup: { start: 16, increment: 8, samples: 300_000 },
    });
    const sizeAt = (samples: number): number => batches.at(samples).globalBatchSize;
    expect(sizeAt(0)).toBe(16);
    expect(sizeAt(2380)).toBe(16);
    expect(sizeAt(2381)).toBe(24);
    expect(sizeAt(150_000)).toBe(520);
    expect(sizeAt(299_999)).toBe(1016);
    expect(sizeAt(300_001)).toBe(1024);
    expect(batches.at(2381).numMicroBatches).toBe(3);
  });

  it('counts the steps of a ramped training one by one', () => {
    const batches = new NumMicroBatches({
      globalBatchSize: 8,
      microBatchSize: 1,
      numShares: 2,
      rampup: { start: 2, increment: 2, samples: 30 },
    });
    // The intervals have 10 samples: steps of 2 start at 0 2 4 6 8, steps of 4 at 10 14 18, steps of 6 at 22
    // 28, and steps of full size from 34 on.
    expect([0, 1, 5, 6, 10, 11].map((steps) => batches.samplesAfter(steps))).toEqual([0, 2, 10, 14, 34, 42]);
    expect(batches.iterationsFor(34)).toBe(10);
    expect(batches.iterationsFor(41)).toBe(10);
    expect(batches.iterationsFor(42)).toBe(11);
  });

  it('counts the steps that are left of the samples, whatever the batches before', () => {
    const sizes = { globalBatchSize: 8, microBatchSize: 1, numShares: 2 };
    const constant = new NumMicroBatches(sizes);
    expect(constant.iterationsFor(64, { iteration: 7, consumedSamples: 28 })).toBe(11);
    expect(constant.samplesAfter(11, { iteration: 7, consumedSamples: 28 })).toBe(60);
    // if no samples are left, a run that is already beyond its last sample takes no further step
    expect(constant.iterationsFor(64, { iteration: 8, consumedSamples: 64 })).toBe(8);
    expect(constant.iterationsFor(32, { iteration: 8, consumedSamples: 64 })).toBe(8);
    const growing = new NumMicroBatches({ ...sizes, rampup: { start: 2, increment: 2, samples: 30 } });
    // from 10 samples on: steps of 4 start at 10 14 18, steps of 6 at 22 28, then steps have the full size
    expect(growing.iterationsFor(50, { iteration: 1, consumedSamples: 10 })).toBe(8);
    expect(growing.samplesAfter(8, { iteration: 1, consumedSamples: 10 })).toBe(50);
  });

  it('never goes beyond the samples while the batch grows', () => {
    const batches = new NumMicroBatches({
      globalBatchSize: 8,
      microBatchSize: 1,
      numShares: 1,
      rampup: { start: 2, increment: 2, samples: 1000 },
    });
    expect(batches.iterationsFor(64)).toBe(32);
    expect(batches.iterationsFor(65)).toBe(32);
  });

  it('looks at the sizes of a ramp-up only while it is not over', () => {
    const sizes = { globalBatchSize: 8, microBatchSize: 2, numShares: 4 };
    const rampup = { start: 2, increment: 2, samples: 30 };
    const goingOnAt = (consumedSamples: number) => new NumMicroBatches({ ...sizes, rampup, consumedSamples });
    expect(() => goingOnAt(0)).toThrow(/rampup.start 2 is not a multiple of 8/);
    expect(() => goingOnAt(29)).toThrow(/not a multiple/);
    expect(goingOnAt(30).countsOfMicroBatches()).toEqual([1]);
    expect(goingOnAt(30).at(34)).toEqual({ globalBatchSize: 8, numMicroBatches: 1 });
    expect(goingOnAt(30).iterationsFor(64, { iteration: 9, consumedSamples: 30 })).toBe(13);
  });

  it('knows every number of micro-batches that a step will have', () => {
    const sizes = { globalBatchSize: 16, microBatchSize: 2, numShares: 2 };
    expect(new NumMicroBatches(sizes).countsOfMicroBatches()).toEqual([4]);
    const rampup = { start: 4, increment: 4, samples: 40 };
    const batches = new NumMicroBatches({ ...sizes, rampup });
    expect(batches.countsOfMicroBatches()).toEqual([1, 2, 3, 4]);
    const seen = Array.from({ length: 60 }, (_, consumed) => batches.at(consumed).numMicroBatches);
    expect([...new Set(seen)]).toEqual(batches.countsOfMicroBatches());
  });

  it('accepts a ramp-up that starts at the full size', () => {
    const batches = new NumMicroBatches({
      globalBatchSize: 8,
      microBatchSize: 4,
      numShares: 1,
      rampup: { start: 8, increment: 3, samples: 30 },
    });
    expect([0, 15, 30, 31].map((samples) => batches.at(samples).globalBatchSize)).toEqual([8, 8, 8, 8]);
  });

  it('grows steadily, in whole micro-batches, from the start to the full size', () => {
    const options = fc.record({
      microBatchSize: fc.integer({ min: 1, max: 8 }),
      numShares: fc.integer({ min: 1, max: 8 }),
      start: fc.integer({ min: 1, max: 8 }),
      increment: fc.integer({ min: 1, max: 8 }),
      increments: fc.integer({ min: 0, max: 40 }),
      samples: fc.integer({ min: 1, max: 100_000 }),
    });
    fc.assert(
      fc.property(options, fc.nat(120_000), (given, consumed) => {
        const unit = given.microBatchSize * given.numShares;
        const globalBatchSize = (given.start + given.increment * given.increments) * unit;
        const batches = new NumMicroBatches({
          globalBatchSize,
          microBatchSize: given.microBatchSize,
          numShares: given.numShares,
          rampup: { start: given.start * unit, increment: given.increment * unit, samples: given.samples },
        });
        const now = batches.at(consumed);
        expect(Number.isInteger(now.numMicroBatches)).toBe(true);
        expect(now.globalBatchSize).toBe(now.numMicroBatches * unit);
        expect(now.globalBatchSize).toBeGreaterThanOrEqual(given.start * unit);
        expect(now.globalBatchSize).toBeLessThanOrEqual(globalBatchSize);
        expect(batches.at(consumed + 1).globalBatchSize).toBeGreaterThanOrEqual(now.globalBatchSize);
        expect(batches.at(given.samples + 1).globalBatchSize).toBe(globalBatchSize);
      }),
    );
  });
});

describe('batch sizes that cannot be', () => {
  const sizes = { globalBatchSize: 64, microBatchSize: 4, numShares: 2 };

  it.each<
    [string, Partial<Extract<NumMicroBatchesOptions, { readonly numShares: number }>>, string, RegExp, RegExp]
  >([
    [
      'a global batch between two multiples',
      { globalBatchSize: 30 },
      'MTL_BATCH_SIZE',
      /globalBatchSize 30 is not a multiple of 8 \(microBatchSize 4 x data-parallel size 2\)/,
      /^24 or 32$/,
    ],
    ['a global batch below the first multiple', { globalBatchSize: 6 }, 'MTL_BATCH_SIZE', /6 is not/, /^8$/],
    ['no micro-batch', { microBatchSize: 0 }, 'MTL_BATCH_SIZE', /microBatchSize is 0/, /1 or more/],
    [
      'a ramp-up from above',
      { rampup: { start: 72, increment: 8, samples: 100 } },
      'MTL_RAMPUP_BATCH_SIZE',
      /rampup.start 72 is above globalBatchSize 64/,
      /at most 64/,
    ],
    [
      'an increment that misses the full size',
      { rampup: { start: 16, increment: 20, samples: 100 } },
      'MTL_RAMPUP_BATCH_SIZE',
      /by 20, which does not divide 48/,
      /an increment of 16 or 24/,
    ],
    [
      'a start that does not divide',
      { rampup: { start: 12, increment: 52, samples: 100 } },
      'MTL_BATCH_SIZE',
      /rampup.start 12 is not a multiple of 8/,
      /8 or 16/,
    ],
    [
      'an increment that does not divide',
      { rampup: { start: 16, increment: 12, samples: 100 } },
      'MTL_BATCH_SIZE',
      /rampup.increment 12/,
      /8 or 16/,
    ],
    [
      'no samples to ramp over',
      { rampup: { start: 16, increment: 8, samples: 0 } },
      'MTL_BATCH_SIZE',
      /rampup.samples is 0/,
      /1 or more/,
    ],
  ])('are refused: %s', (_, options, code, message, expected) => {
    expect(() => new NumMicroBatches({ ...sizes, ...options })).toThrow(
      expect.objectContaining({
        code,
        message: expect.stringMatching(message),
        expected: expect.stringMatching(expected),
        exitCode: 2,
      }),
    );
  });

  it('offers a micro-batch size only where one would help', () => {
    const catchRemedy = (options: NumMicroBatchesOptions): string | undefined => {
      try {
        new NumMicroBatches(options);
      } catch (error) {
        return (error as { remedy?: string }).remedy;
      }
      return undefined;
    };
    expect(catchRemedy({ ...sizes, globalBatchSize: 30 })).toBe(
      'use 32, or a microBatchSize that divides 15',
    );
    expect(catchRemedy({ ...sizes, globalBatchSize: 31 })).toBe('use 32');
  });
});
