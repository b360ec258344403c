import type { World } from '@mtl/comm';
import { forgetStopSignal, rememberStopSignal } from '@mtl/trainer/stop-signals';
import { type FineTuneOptions, type FineTuningReport, fineTune } from '../../src/runs/fine-tune.js';

export interface FineTuneArgument extends Pick<FineTuneOptions, 'configuration' | 'seeds'> {
  /** The --save of all ranks except the first: their storage is separate. */
  readonly saveElsewhere?: string;
  /** The rank that gets a signal, which the steps of its run do not notice. */
  readonly signalOnRank?: number;
}

/** Runs several fine-tunings, one after the other, as a rank of a job. */
export default async (world: World, all: readonly FineTuneArgument[]): Promise<FineTuningReport[]> => {
  const reports: FineTuningReport[] = [];
  for (const { configuration, seeds, saveElsewhere, signalOnRank } of all) {
    const { checkpoint } = configuration;
    const save = world.rank === 0 ? checkpoint.save : (saveElsewhere ?? checkpoint.save);
    const running = fineTune({
      configuration: { ...configuration, checkpoint: { ...checkpoint, save } },
      seeds,
      world: world.size === 1 ? undefined : world,
      local: { rank: world.rank, size: world.size },
      onMessage: () => {},
    });
    if (signalOnRank === world.rank) rememberStopSignal('SIGTERM');
    reports.push(await running);
    forgetStopSignal();
  }
  return reports;
};
