import type { World } from '@mtl/comm';
import { parseFlags, validateConfiguration } from '@mtl/configuration';
import { Training } from '@mtl/recipes';

/** Trains as gpt-train does, as one rank. */
export default async (world: World, flags: readonly string[]): Promise<void> => {
  const configuration = validateConfiguration(parseFlags([...flags]), { worldSize: world.size });
  const training = await Training.build({
    configuration,
    corpusDirectory: 'never-used',
    stream: { write: () => true, isTTY: false },
    world,
    local: { rank: world.rank, size: world.size },
  });
  try {
    await training.run();
  } finally {
    await training.close();
  }
};
