import { findGpu, openCuda } from '@mtl/kernels';
import type { Recomputation } from '@mtl/models';
import { buildSchedule, oneStage } from '@mtl/pipeline/schedules';
import { beforeAll, describe, expect, it } from 'vitest';
import { type MemoryShape, predictStages } from '../../src/index.js';
import { batchSize, type PeakOfRankOptions, peakOfRank, sequenceLength, sizes } from './peak-of-rank.js';

// an emulated device then keeps account of memory alone: sizes can be those of training runs
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

function shapeOf(options: Omit<PeakOfRankOptions, 'rank'>): MemoryShape {
  const { schedule, dtype, recomputation, hiddenDropout, isGraphed } = options;
  const numChunks = schedule.placement.length;
  return {
    ...sizes,
    sequenceLength,
    recomputation,
    microBatchSize: batchSize,
    vocabSize: sizes.vocabularySize,
    tieEmbeddings: true,
    hiddenDropout: hiddenDropout > 0,
    bytesPerElement: dtype === 'float32' ? 4 : 2,
    tensorParallelSize: 1,
    sequenceParallel: false,
    optimizerShards: 1,
    device: 'cuda',
    cudaGraphs: isGraphed,
    pipeline: { schedule, numLayers: new Array<number>(numChunks).fill(sizes.numLayers / numChunks) },
  };
}

/** Measured over predicted, of each rank. */
function ratiosOf(each: Case, isGraphed: boolean): number[] {
  const { schedule: name, numStages, numChunks } = each;
  const { dtype = 'bfloat16', recomputation = { granularity: 'none' }, hiddenDropout = 0.1 } = each;
  const schedule =
    numStages === 1
      ? oneStage(numMicroBatches)
      : buildSchedule(name, { numStages, numMicroBatches, numChunks });
  const options = { schedule, dtype, recomputation, hiddenDropout, isGraphed };
  return predictStages(shapeOf(options)).map(({ activations, temporary }, rank) => {
    const { bytes, said } = peakOfRank({ ...options, rank });
    expect(new Set(said)).toEqual(new Set(isGraphed ? [used] : []));
    return bytes / (activations + temporary);
  });
}

const text = (ratios: readonly number[]): string => ratios.map((one) => one.toFixed(3)).join(' ');

describe.skipIf(problem !== undefined)(`what passes keep and need on device cuda (${title})`, () => {
  beforeAll(() => void openCuda());

  it.each(cases)('is what predictStages says, one by one: %o', (each) => {
    const ratios = ratiosOf(each, false);
    // the allocator rounds blocks up, and kernels take a little scratch memory of their own
    for (const ratio of ratios) expect(Math.abs(ratio - 1), text(ratios)).toBeLessThan(0.02);
  });

  it.each(cases)('is what predictStages says, recorded: %o', (each) => {
    const ratios = ratiosOf(each, true);
    if (process.env.SHOW) console.log(text(ratios));
    // a slot's segments are of 32 MiB at least, and what is cut out of them does not always fit the next
    for (const ratio of ratios) expect(Math.abs(ratio - 1), text(ratios)).toBeLessThan(0.1);
  });
});
