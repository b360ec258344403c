import { runLocalRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import { simulateSchedule } from '../src/schedules.js';
import { type ChainCase, makeSchedule, type RankResult } from './ranks/run-affine-chain.js';

/**
 * Bytes per unit of memory; large compared with the boundary tensors of a step (48 bytes each), which can be
 * ignored.
 */
const unit = 1 << 20;
/**
 * Sizes in units: a micro-batch keeps three on a chunk until its input half is done, and one until its weight
 * half is done.
 */
const sizes = { untilInput: 3, untilWeight: 1 };
const elements = (units: number): number => (units * unit) / Float64Array.BYTES_PER_ELEMENT;

const kinds: readonly (readonly [schedule: string, numChunks?: number])[] = [
  ...([['gpipe'], ['1f1b'], ['zb-h1'], ['zb-h2'], ['zb-v'], ['breadth-first', 1]] as const),
  ...([
    ['breadth-first', 2],
    ['interleaved', 2],
    ['interleaved', 4],
  ] as const),
];

describe('peak live activations', () => {
  it.each([
    [2, 6],
    [4, 8],
  ])('are those simulated, counted and in bytes, with %d stages', async (numStages, numMicroBatches) => {
    const kept = { untilInput: elements(sizes.untilInput), untilWeight: elements(sizes.untilWeight) };
    const cases: ChainCase[] = kinds.map(([schedule, numChunks]) => ({
      schedule,
      numChunks,
      numStages,
      numMicroBatches,
      numReplicas: 1,
      size: 6,
      kept,
    }));
    const ranks = await runLocalRanks<RankResult[]>({
      worldSize: numStages,
      ...rankThreads(new URL('./ranks/run-affine-chain.ts', import.meta.url)),
      argument: cases,
    });
    cases.forEach((chainCase, index) => {
      const schedule = makeSchedule(chainCase, numMicroBatches);
      const simulated = simulateSchedule({ schedule, activations: sizes }).ranks.map(({ peak }) => peak);
      const measured = ranks.map((results) => {
        const { peak, peakBytes } = results[index]!;
        return { ...peak, size: Math.floor(peakBytes / unit) };
      });
      expect({ schedule: schedule.name, peaks: measured }).toEqual({
        schedule: schedule.name,
        peaks: simulated,
      });
    });
  });
});
