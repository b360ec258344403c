import { findGpu, openCuda } from '@mtl/kernels/internal';
import type { Recomputation } from '@mtl/models';
import { buildSchedule, oneStage } from '@mtl/pipeline/schedules';
import { beforeAll, describe, expect, it } from 'vitest';
import { type PeakOfRankOptions, peakOfRank } from './peak-of-rank.js';

// an emulated device then accounts for memory only: sizes can be as large as in training runs
process.env.MTL_EMULATION_IDLE = '1';
const { problem, title } = findGpu();
const numMicroBatches = 6;
const used = 'CUDA graphs: passes over micro-batches are launched as graphs from here on';

interface Case {
  readonly schedule: string;
  readonly numStages: number;
  readonly numChunks?: number;
  readonly dtype?: 'float32' | 'bfloat16';
  readonly hiddenDropout?: number;
  readonly recomputation?: Recomputation;
}

const full = { granularity: 'full', method: 'uniform', numLayers: 1 } as const;
const cases: readonly Case[] = [
  { schedule: '1f1b', numStages: 1 },
  { schedule: 'gpipe', numStages: 2 },
  { schedule: '1f1b', numStages: 4 },
  { schedule: '1f1b', numStages: 4, recomputation: full },
  { schedule: 'interleaved', numStages: 2, numChunks: 2, dtype: 'float32' },
  { schedule: 'zb-h1', numStages: 4, hiddenDropout: 0 },
  { schedule: 'zb-v', numStages: 2 },
];

/** Returns the peak memory of each rank, in bytes. */
function measurePeaks(
  each: Case,
  { device, isGraphed }: Pick<PeakOfRankOptions, 'device' | 'isGraphed'>,
): number[] {
  const { schedule: name, numStages, numChunks } = each;
  const { dtype = 'bfloat16', recomputation = { granularity: 'none' }, hiddenDropout = 0.1 } = each;
  const schedule =
    numStages === 1
      ? oneStage(numMicroBatches)
      : buildSchedule(name, { numStages, numMicroBatches, numChunks });
  const options = { schedule, dtype, recomputation, hiddenDropout, isGraphed, device };
  return schedule.actions.map((_, rank) => {
    const { bytes, said } = peakOfRank({ ...options, rank });
    expect(new Set(said)).toEqual(new Set(isGraphed ? [used] : []));
    return bytes;
  });
}

describe.skipIf(problem !== undefined)(`what passes keep and need on device cuda (${title})`, () => {
  beforeAll(() => void openCuda());

  it.each([false, true])('is what device meta-cuda counts; recorded: %s', (isGraphed) => {
    for (const each of cases) {
      const [measured, counted] = (['cuda', 'meta-cuda'] as const).map((device) =>
        measurePeaks(each, { device, isGraphed }),
      );
      expect(counted, JSON.stringify(each)).toEqual(measured);
    }
  });
});
