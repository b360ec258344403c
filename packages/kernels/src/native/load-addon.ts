import { KernelError } from '@mtl/errors';
import { loadNativeAddon } from '@mtl/tooling/load-native-addon';
import { platformProblem } from '@mtl/tooling/platform-problem';
import type { KernelsAddon, LoadedKernels } from './kernels-addon.js';
import { loadWebAssembly, type WebAssemblyChoice, webAssemblyChoices } from './load-webassembly.js';

/**
 * Shortens how long OpenMP threads spin after a parallel region, because spinning threads starve other
 * processes on the same cores.
 */
function prepareEnvironment(): void {
  // libgomp reads this variable when it is opened, and loading the addon may open libgomp
  process.env.GOMP_SPINCOUNT ??= '10000';
}

/**
 * @throws Error if the addon has no kernels that run on this machine. This can occur because the first build
 *   in a checkout compiles the kernels only for the machine on which it runs
 */
export function requireInstructionSet(addon: Pick<KernelsAddon, 'host'>): void {
  const { instructionSet, compiledInstructionSets, detectedInstructionSet } = addon.host();
  if (compiledInstructionSets.includes(instructionSet)) return;
  throw new Error(
    `compiled for ${compiledInstructionSets.join(' and ')}, which this processor does not have ` +
      `(its best instruction set is ${detectedInstructionSet})`,
  );
}

/** The values of MTL_KERNELS. */
const choices: readonly string[] = ['native', ...webAssemblyChoices];

/**
 * Loads the native addon: an explicit path in MTL_KERNELS_ADDON, the local build, or the platform package.
 * Without an addon that runs on this platform, the kernels are WebAssembly. MTL_KERNELS restricts the choice
 * to `native`, or to a module of WebAssembly.
 *
 * @throws KernelError MTL_PLATFORM, or MTL_ADDON with the tried files and a remedy; MTL_ADDON in a web page
 */
export function loadAddon(): LoadedKernels {
  if (globalThis.process === undefined) {
    throw new KernelError('MTL_ADDON', 'a page has no file to load kernels from', {
      remedy:
        'load them with @mtl/kernels-wasm32/load-in-page.mjs, and give the result to useKernels of @mtl/kernels/page first',
    });
  }
  const { MTL_KERNELS: choice, MTL_KERNELS_ADDON: explicit } = process.env;
  if (choice !== undefined && !choices.includes(choice)) {
    throw new KernelError(
      'MTL_ADDON',
      `MTL_KERNELS is ${choice}, expected ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`,
      {
        remedy: 'unset it: native kernels are used where this platform has them, otherwise WebAssembly',
        exitCode: 2,
      },
    );
  }
  const webAssembly = (choice?: WebAssemblyChoice) =>
    loadWebAssembly({ directory: packageDirectory(), choice });
  const named = webAssemblyChoices.find((each) => each === choice);
  if (named !== undefined) {
    const loaded = webAssembly(named);
    if (loaded.addon !== undefined) return loaded;
    throw new KernelError('MTL_ADDON', `the kernels as WebAssembly could not be loaded: ${loaded.failure}`, {
      remedy: loaded.remedy,
      exitCode: 2,
    });
  }
  prepareEnvironment();
  const native = loadNativeAddon<KernelsAddon>({
    directory: packageDirectory(),
    file: 'mtl_kernels.node',
    explicit,
    command: 'mtl-kernels-build',
    needs: 'g++, cmake and libdnnl-dev',
    accept: requireInstructionSet,
  });
  if (native.addon !== undefined) return { ...native, isWebAssembly: false };
  const problem = platformProblem();
  const mayReplace =
    choice === undefined && explicit === undefined && (native.isAbsent || problem !== undefined);
  const replacement = mayReplace ? webAssembly() : undefined;
  if (replacement?.addon !== undefined) return replacement;
  if (problem !== undefined) {
    const { message, ...advice } = problem;
    throw new KernelError('MTL_PLATFORM', `the native kernels could not be loaded: ${message}`, {
      ...advice,
      exitCode: 2,
    });
  }
  const failures = [...native.failures, ...(replacement === undefined ? [] : [replacement.failure])];
  const oneDnn = failures.some((failure) => failure.includes('libdnnl'));
  throw new KernelError(
    'MTL_ADDON',
    `the native kernels could not be loaded\n    ${failures.join('\n    ')}`,
    {
      remedy: oneDnn ? 'install oneDNN: sudo apt-get install libdnnl-dev' : native.remedy,
      exitCode: 2,
    },
  );
}

/** Returns this package's folder. Works both from the sources and from the build. */
export function packageDirectory(): string {
  const { existsSync } = process.getBuiltinModule('node:fs');
  const { dirname, join } = process.getBuiltinModule('node:path');
  const { fileURLToPath } = process.getBuiltinModule('node:url');
  let directory = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(directory, 'package.json'))) directory = dirname(directory);
  return directory;
}
