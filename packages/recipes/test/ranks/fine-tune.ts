import type { World } from '@mtl/comm';
import { type FineTuneOptions, type FineTuningReport, fineTune } from '../../src/index.js';

export type FineTuneArgument = Pick<FineTuneOptions, 'configuration' | 'seeds'>;

/** Fine-tunes one thing after the other as a rank of a job. */
export default async (world: World, all: readonly FineTuneArgument[]): Promise<FineTuningReport[]> => {
  const reports: FineTuningReport[] = [];
  for (const argument of all) {
    reports.push(
      await fineTune({
        ...argument,
        world: world.size === 1 ? undefined : world,
        local: { rank: world.rank, size: world.size },
        onMessage: () => {},
      }),
    );
  }
  return reports;
};
