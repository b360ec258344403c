import { runLocalRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import { type ChainCase, makeSchedule, type RankResult } from './ranks/run-affine-chain.js';

const run = (cases: readonly ChainCase[]): Promise<RankResult[][]> =>
  runLocalRanks<RankResult[]>({
    worldSize: cases[0]!.numStages * cases[0]!.numReplicas,
    ...rankThreads(new URL('./ranks/run-affine-chain.ts', import.meta.url)),
    argument: cases,
  });

const kinds: readonly (readonly [schedule: string, numChunks?: number])[] = [
  ...([['gpipe'], ['1f1b'], ['zb-h1'], ['zb-h2'], ['zb-v']] as const),
  ...([
    ['breadth-first', 2],
    ['interleaved', 2],
    ['interleaved', 3],
  ] as const),
];

describe('bytes on the wire', () => {
  it.each([1, 2])('agree with the formula, divided by %d replicas', async (numReplicas) => {
    const [numStages, numMicroBatches, size] = [2, 4, 1000];
    const cases = kinds.map(([schedule, numChunks]) => ({
      schedule,
      numChunks,
      numStages,
      numMicroBatches,
      numReplicas,
      size,
    }));
    const ranks = await run(cases);
    cases.forEach((chainCase, index) => {
      const { placement } = makeSchedule(chainCase, numMicroBatches);
      // bsh elements of each micro-batch, forward and backward over every boundary between ranks; each
      // replica sends 1/t of the elements
      const ofBoundary = (numMicroBatches * size * Float64Array.BYTES_PER_ELEMENT) / numReplicas;
      const crossings = (stage: number): number =>
        placement.filter((home, chunk) => home === stage && (placement[chunk + 1] ?? stage) !== stage)
          .length +
        placement.filter((home, chunk) => home === stage && (placement[chunk - 1] ?? stage) !== stage).length;
      expect(
        ranks.map((results) => results[index]!.sentBytes),
        chainCase.schedule,
      ).toEqual(ranks.map((_, rank) => crossings(Math.floor(rank / numReplicas)) * ofBoundary));
    });
  });
});

describe('memory of boundary tensors', () => {
  it('does not grow with the number of micro-batches', { tags: ['whole'] }, async () => {
    const [numStages, size] = [3, 100_000];
    const base = { schedule: '1f1b', numStages, numReplicas: 1, size };
    const ranks = await run([
      { ...base, numMicroBatches: 6 },
      { ...base, numMicroBatches: 24 },
    ]);
    // The tensor that a pass uses and the tensor that it makes, two tensors in transfer to this rank, and
    // results that the next rank has not received yet: a rank is ahead by at most the number of stages.
    const most = 2 + 2 + numStages;
    for (const results of ranks) {
      for (const { peakBytes } of results) {
        expect(Math.floor(peakBytes / (size * Float64Array.BYTES_PER_ELEMENT))).toBeLessThanOrEqual(most);
      }
    }
  });
});
