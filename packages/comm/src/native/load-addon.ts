import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CommunicationError } from '@mtl/errors';
import { tensorApi } from '@mtl/kernels';
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
  const require = createRequire(import.meta.url);
  const explicit = process.env.MTL_COMM_ADDON;
  const local = join(packageDirectory(), 'build', 'Release', 'mtl_comm.node');
  const candidates =
    explicit === undefined ? [local, `@mtl/comm-${process.platform}-${process.arch}`] : [explicit];
  const failures: string[] = [];
  for (const candidate of candidates) {
    try {
      const addon = require(candidate) as CommAddon;
      const { bindings = 1 } = addon;
      if (bindings !== expectedBindings)
        throw new Error(`built from other sources (bindings ${bindings}, expected ${expectedBindings})`);
      if (usesTensors) addon.useTensors(tensorApi());
      return addon;
    } catch (error) {
      failures.push(`${candidate}: ${(error as Error).message.split('\n')[0]}`);
    }
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
    `the native engines of @mtl/comm could not be loaded\n    ${failures.join('\n    ')}`,
    {
      remedy: 'npx mtl-comm-build, or in a checkout npm run build:native (needs g++ and cmake)',
      exitCode: 2,
    },
  );
}
