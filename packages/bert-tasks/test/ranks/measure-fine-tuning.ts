import type { World } from '@mtl/comm';
import { memoryStatistics, resetPeakMemory } from '@mtl/kernels';
import type { FineTuningConfiguration } from '../../src/flags/fine-tuning-configuration.js';
import { fineTune } from '../../src/runs/fine-tune.js';

/**
 * Runs several fine-tunings, one after the other, as a rank of a job; returns the allocator's peak on this
 * rank for each, in bytes.
 */
export default async (world: World, all: readonly FineTuningConfiguration[]): Promise<number[]> => {
  const peaks: number[] = [];
  for (const configuration of all) {
    const before = memoryStatistics('cpu').bytesInUse;
    resetPeakMemory('cpu');
    await fineTune({
      configuration,
      seeds: [5],
      world: world.size === 1 ? undefined : world,
      local: { rank: world.rank, size: world.size },
      onMessage: () => {},
    });
    peaks.push(memoryStatistics('cpu').peakBytes - before);
  }
  return peaks;
};
