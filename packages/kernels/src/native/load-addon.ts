import { createRequire } from 'node:module';
import { join } from 'node:path';
import { KernelError } from '@mtl/errors';
import { platformProblem } from '@mtl/tooling/platform-problem';
import type { KernelsAddon } from './kernels-addon.js';
import { packageDirectory } from './package-directory.js';

/** OpenMP threads that spin after a parallel region starve other processes on the same cores. */
function prepareEnvironment(): void {
  // The one place that writes to process.env: libgomp reads it when it is opened, which the next line may do.
  process.env.GOMP_SPINCOUNT ??= '10000';
}

/**
 * Loads the native addon: an explicit path in MTL_KERNELS_ADDON, else the local build, else the platform
 * package. A failure lists what was tried and what to do.
 */
export function loadAddon(): { readonly addon: KernelsAddon; readonly path: string } {
  prepareEnvironment();
  const require = createRequire(import.meta.url);
  const platformPackage = `@mtl/kernels-${process.platform}-${process.arch}`;
  const explicit = process.env.MTL_KERNELS_ADDON;
  const candidates =
    explicit === undefined
      ? [join(packageDirectory(), 'build', 'Release', 'mtl_kernels.node'), platformPackage]
      : [explicit];
  const failures: string[] = [];
  for (const candidate of candidates) {
    try {
      return { addon: require(candidate) as KernelsAddon, path: require.resolve(candidate) };
    } catch (error) {
      failures.push(`${candidate}: ${(error as Error).message.split('\n')[0]}`);
    }
  }
  const problem = platformProblem();
  if (problem !== undefined) {
    const { message, ...advice } = problem;
    throw new KernelError('MTL_PLATFORM', `the native kernels could not be loaded: ${message}`, {
      ...advice,
      exitCode: 2,
    });
  }
  const oneDnn = failures.some((failure) => failure.includes('libdnnl'));
  throw new KernelError(
    'MTL_ADDON',
    `the native kernels could not be loaded\n    ${failures.join('\n    ')}`,
    {
      remedy: oneDnn
        ? 'install oneDNN: sudo apt-get install libdnnl-dev'
        : 'npx mtl-kernels-build, or in a checkout npm run build:native (needs g++, cmake and libdnnl-dev)',
      exitCode: 2,
    },
  );
}
