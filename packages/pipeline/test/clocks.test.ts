import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { beforeAll, describe, expect, it } from 'vitest';
import type { RecordedSpan } from '../src/index.js';
import { measureStep } from '../src/measured/measured-step.js';
import { type Simulation, simulateSchedule } from '../src/schedules.js';
import { makeSchedule } from './ranks/run-affine-chain.js';
import type { ClockCase } from './ranks/run-by-clocks.js';
import type { PassUnits } from './support/clock-stage.js';

const numStages = 4;
/** Nanoseconds per unit of simulated time: one millisecond, so that whole numbers stay whole. */
const unit = 1e6;

const kinds: readonly (readonly [schedule: string, chunksPerStage: number])[] = [
  ...(['gpipe', '1f1b', 'zb-h1', 'zb-h2'] as const).map((name) => [name, 1] as const),
  ['zb-v', 2],
  ...[1, 2, 4].map((v) => ['breadth-first', v] as const),
  ...[2, 4].map((v) => ['interleaved', v] as const),
];
/** Equal times, then all different, so that a pass in the wrong place is noticed. */
const timings = {
  alike: () => 3,
  different: (chunk: number, kind: number) => 1 + ((7 * chunk + 5 * kind) % 11),
};

const sizes = [8, 16].flatMap((numMicroBatches) =>
  (['alike', 'different'] as const).map((times) => ({ numMicroBatches, times })),
);

function clockCases({ numMicroBatches, times }: (typeof sizes)[number]): ClockCase[] {
  return kinds.map(([schedule, v]) => {
    const units = Array.from({ length: numStages * v }, (_, chunk) => {
      const [forward, backwardInput, backwardWeight] = [0, 1, 2].map(
        (kind) => unit * timings[times](chunk, kind),
      );
      return { forward: forward!, backwardInput: backwardInput!, backwardWeight: backwardWeight! };
    });
    // schedules with only one possible v get no number of chunks
    const numChunks = schedule === 'breadth-first' || schedule === 'interleaved' ? v : undefined;
    return { schedule, numStages, numMicroBatches, units, numChunks };
  });
}

function simulated({ units, ...clockCase }: ClockCase): Simulation {
  const perChunk = (kind: keyof PassUnits): number[] => units.map((each) => each[kind] / unit);
  return simulateSchedule({
    schedule: makeSchedule({ ...clockCase, numReplicas: 1, size: 1 }, clockCase.numMicroBatches),
    times: {
      forward: perChunk('forward'),
      backwardInput: perChunk('backwardInput'),
      backwardWeight: perChunk('backwardWeight'),
    },
  });
}

describe('by a clock that only passes move on, executor and simulator', () => {
  let ranks: readonly RecordedSpan[][][];
  beforeAll(async () => {
    ranks = await runInMemoryRanks<RecordedSpan[][]>({
      worldSize: numStages,
      ...rankThreads(new URL('./ranks/run-by-clocks.ts', import.meta.url)),
      argument: sizes.flatMap(clockCases),
    });
  });

  it.each(sizes)('begin every pass at the same time: %o', (size) => {
    const first = sizes.indexOf(size) * kinds.length;
    clockCases(size).forEach((clockCase, index) => {
      const expected = simulated(clockCase);
      const { name } = expected.schedule;
      const measured = measureStep(
        ranks.map((cases) => cases[first + index]!),
        { name },
      );
      expect(
        measured.ranks.map(({ passes }) => passes),
        name,
      ).toEqual(expected.ranks.map(({ passes }) => passes));
      expect(measured.bubbleFraction).toBe(expected.bubbleFraction);
    });
  });
});
