import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { KernelError } from '@mtl/errors';
import { loadNativeAddon } from '@mtl/tooling/load-native-addon';
import { platformProblem } from '@mtl/tooling/platform-problem';
import type { KernelsAddon } from './kernels-addon.js';

/**
 * Shortens the spinning of OpenMP threads after a parallel region, which starves other processes on the same
 * cores.
 */
function prepareEnvironment(): void {
  // libgomp reads the variable when it is opened, and loading the addon may open it
  process.env.GOMP_SPINCOUNT ??= '10000';
}

/**
 * @throws Error if no kernel of the addon runs on this machine: the first build in a checkout compiles the
 *   kernels for one machine only
 */
export function requireInstructionSet(addon: Pick<KernelsAddon, 'host'>): void {
  const { instructionSet, compiledInstructionSets, detectedInstructionSet } = addon.host();
  if (compiledInstructionSets.includes(instructionSet)) return;
  throw new Error(
    `compiled for ${compiledInstructionSets.join(' and ')}, which this processor does not have ` +
      `(its best instruction set is ${detectedInstructionSet})`,
  );
}

/**
 * Loads the native addon: an explicit path in MTL_KERNELS_ADDON, else the local build, else the platform
 * package.
 *
 * @throws KernelError MTL_PLATFORM, or MTL_ADDON with the tried files and a remedy
 */
export function loadAddon(): { readonly addon: KernelsAddon; readonly path: string } {
  prepareEnvironment();
  const loaded = loadNativeAddon<KernelsAddon>({
    directory: packageDirectory(),
    file: 'mtl_kernels.node',
    explicit: process.env.MTL_KERNELS_ADDON,
    command: 'mtl-kernels-build',
    needs: 'g++, cmake and libdnnl-dev',
    accept: requireInstructionSet,
  });
  if (loaded.addon !== undefined) return loaded;
  const problem = platformProblem();
  if (problem !== undefined) {
    const { message, ...advice } = problem;
    throw new KernelError('MTL_PLATFORM', `the native kernels could not be loaded: ${message}`, {
      ...advice,
      exitCode: 2,
    });
  }
  const oneDnn = loaded.failures.some((failure) => failure.includes('libdnnl'));
  throw new KernelError(
    'MTL_ADDON',
    `the native kernels could not be loaded\n    ${loaded.failures.join('\n    ')}`,
    {
      remedy: oneDnn ? 'install oneDNN: sudo apt-get install libdnnl-dev' : loaded.remedy,
      exitCode: 2,
    },
  );
}

/** Returns the folder of this package, whether this module is among its sources or in its build. */
export function packageDirectory(): string {
  let directory = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(directory, 'package.json'))) directory = dirname(directory);
  return directory;
}
