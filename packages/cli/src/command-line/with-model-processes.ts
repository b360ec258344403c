import { ConfigurationError } from '@mtl/errors';
import { joinProcesses } from '@mtl/recipes';
import type { ModelProcesses } from './model-flags.js';

/**
 * Runs a task in every process of the job that a launcher started, which hold the layers of a model together; of one
 * process that was started alone, there.
 *
 * @param options.tensorModelParallelSize --tensor-model-parallel-size; must be the number of processes
 * @throws ConfigurationError MTL_WORLD_SIZE
 */
export async function withModelProcesses(
  options: { readonly tensorModelParallelSize: number },
  task: (processes: ModelProcesses) => Promise<void>,
): Promise<void> {
  const { tensorModelParallelSize } = options;
  const { world, local } = await joinProcesses({ variables: process.env, timeoutMinutes: undefined });
  try {
    checkSize({ worldSize: world?.size ?? 1, tensorModelParallelSize });
    await task({
      tensorParallelGroup: world?.group,
      numLocal: local.size,
      isFirst: world === undefined || world.rank === 0,
    });
  } catch (error) {
    // the other processes end with this message instead of waiting for this one
    world?.abort(error as Error);
    throw error;
  }
  world?.close();
}

function checkSize(sizes: { readonly worldSize: number; readonly tensorModelParallelSize: number }): void {
  const { worldSize, tensorModelParallelSize } = sizes;
  if (worldSize === tensorModelParallelSize) return;
  throw new ConfigurationError(
    'MTL_WORLD_SIZE',
    `${worldSize === 1 ? '1 process is' : `${worldSize} processes are`} running, ` +
      `--tensor-model-parallel-size is ${tensorModelParallelSize}`,
    {
      expected: 'as many processes as hold the model',
      remedy:
        worldSize === 1
          ? `mtl run --nproc-per-node ${tensorModelParallelSize} node_modules/@mtl/cli -- eval ...`
          : `pass --tensor-model-parallel-size ${worldSize}`,
    },
  );
}
