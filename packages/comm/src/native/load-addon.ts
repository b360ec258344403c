import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CommunicationError } from '@mtl/errors';
import { tensorApi } from '@mtl/kernels/internal';
import { loadNativeAddon } from '@mtl/tooling/load-native-addon';
import { platformProblem } from '@mtl/tooling/platform-problem';
import { type CommAddon, expectedBindings } from './comm-addon.js';

/** The folder of this package, whether its sources or its build are running. */
function packageDirectory(): string {
  let directory = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(directory, 'package.json'))) directory = dirname(directory);
  return directory;
}

/**
 * Loads the native addon and connects it to that of @mtl/kernels: an explicit path in MTL_COMM_ADDON, else
 * the local build, else the platform package. A failure lists what was tried and what to do. Without
 * `usesTensors` the other addon is left alone, and nothing may be called that moves tensors.
 */
export function loadAddon({ usesTensors = true }: { readonly usesTensors?: boolean } = {}): CommAddon {
  const loaded = loadNativeAddon<CommAddon>({
    directory: packageDirectory(),
    file: 'mtl_comm.node',
    explicit: process.env.MTL_COMM_ADDON,
    command: 'mtl-comm-build',
    needs: 'g++ and cmake',
    accept: ({ bindings = 1 }) => {
      if (bindings !== expectedBindings)
        throw new Error(`built from other sources (bindings ${bindings}, expected ${expectedBindings})`);
    },
  });
  if (loaded.addon !== undefined) {
    if (usesTensors) loaded.addon.useTensors(tensorApi());
    return loaded.addon;
  }
  const problem = platformProblem();
  if (problem !== undefined) {
    const { message, ...advice } = problem;
    throw new CommunicationError('MTL_PLATFORM', `the native engines could not be loaded: ${message}`, {
      ...advice,
      exitCode: 2,
    });
  }
  throw new CommunicationError(
    'MTL_ADDON',
    `the native engines of @mtl/comm could not be loaded\n    ${loaded.failures.join('\n    ')}`,
    {
      remedy: loaded.remedy,
      exitCode: 2,
    },
  );
}
