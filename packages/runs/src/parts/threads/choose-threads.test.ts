import { describe, expect, it } from 'vitest';
import { type ChooseThreadsOptions, chooseThreads, flopsPerThread } from './threads-of-run.js';

const choose = (options: Partial<ChooseThreadsOptions>) =>
  chooseThreads({
    given: undefined,
    recorded: undefined,
    flopsPerMicroBatch: 100 * flopsPerThread,
    cores: 8,
    mostThreads: 1024,
    measureFreeCores: async () => undefined,
    ...options,
  });
const neverMeasured = (): never => {
  throw new Error('measured');
};

describe('chooseThreads', () => {
  it.each<readonly [string, Partial<ChooseThreadsOptions>, number, RegExp]>([
    ['what the flag names', { given: 12, recorded: 2 }, 12, /--threads/],
    ['what the checkpoint was trained with', { recorded: 3 }, 3, /the checkpoint/],
    [
      'one for a tiny model',
      { flopsPerMicroBatch: 2 * flopsPerThread - 1 },
      1,
      /slow down a model of 1\.0e\+10/,
    ],
    ['one on one core', { cores: 1 }, 1, /one core/],
    [
      'one for kernels without shared memory',
      { mostThreads: 1, recorded: 2 },
      1,
      /no shared memory; the checkpoint was trained with 2/,
    ],
  ])('is %s, and measures nothing', async (_, options, count, reason) => {
    const choice = await choose({ ...options, measureFreeCores: neverMeasured });
    expect(choice).toEqual({ count, reason: expect.stringMatching(reason) });
  });

  it.each<readonly [string, Partial<ChooseThreadsOptions>, number, RegExp]>([
    ['where free cores are not known', {}, 8, /one for each core/],
    ['on a free machine', { measureFreeCores: async () => 7.9 }, 8, /one for each core/],
    ['on a busy machine', { measureFreeCores: async () => 2.5 }, 2, /2\.5 of 8 cores are free/],
    ['where nothing is free', { measureFreeCores: async () => 0.1 }, 1, /0\.1 of 8/],
    ['for a small model', { flopsPerMicroBatch: 3.5 * flopsPerThread }, 3, /more than 3/],
    [
      'for a small model on a busy machine',
      { flopsPerMicroBatch: 3.5 * flopsPerThread, measureFreeCores: async () => 6 },
      3,
      /6\.0 of 8/,
    ],
  ])('has a thread for a core %s', async (_, options, count, reason) => {
    expect(await choose(options)).toEqual({ count, reason: expect.stringMatching(reason) });
  });

  it('chooses anew where the checkpoint was trained with more threads than there are cores', async () => {
    const choice = await choose({ recorded: 16 });
    expect(choice).toEqual({ count: 8, reason: expect.stringMatching(/trained with 16/) });
  });
});
