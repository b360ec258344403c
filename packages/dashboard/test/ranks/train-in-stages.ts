import { existsSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import type { World } from '@mtl/comm';
import { configure, type RunOptions } from '@mtl/configuration';
import { openTraining } from '@mtl/runs';

export interface TrainInStagesArgument {
  readonly options: RunOptions;
  /** The run stays in this iteration until the file exists. */
  readonly waits: { readonly iteration: number; readonly file: string };
}

/** Trains as gpt-train does, as one rank. */
export default async (world: World, { options, waits }: TrainInStagesArgument): Promise<void> => {
  const configuration = configure(options, { worldSize: world.size });
  const training = await openTraining({
    configuration,
    corpusDirectory: 'never-used',
    stream: { write: () => true, isTTY: false },
    world,
    local: { rank: world.rank, size: world.size },
    extensions: [
      {
        name: 'waiting',
        onGradients: async (_, iteration) => {
          while (iteration === waits.iteration && !existsSync(waits.file)) await setTimeout(20);
        },
      },
    ],
  });
  try {
    await training.run();
  } finally {
    await training.close();
  }
};
