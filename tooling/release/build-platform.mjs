#!/usr/bin/env node
/**
 * npm run dev -- build:platform: compiles the platform packages of this machine's platform, or with a cross
 * compiler those for arm64, and checks them.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { answerHelp } from '../bootstrap/answer-help.mjs';
import { ensurePackages, root } from '../bootstrap/bootstrap.mjs';
import { buildPlatformPackage } from './build-platform-package.mjs';
import { checkPlatformPackage } from './check-platform-package.mjs';
import { platformFoldersFor } from './platform-folders.mjs';

answerHelp(`usage: npm run dev -- build:platform [PART] [--cpu arm64] [--without-cuda]

Compiles the platform packages of this platform (@mtl/kernels-linux-x64 and so on) into platforms/, and checks
what they need from a machine. The first run builds oneDNN and Gloo from Debian's sources, which takes minutes.

  PART            Only this one: the addon of kernels or comm, or kernels-cuda, which needs nvcc and minutes. [both addons]
  --cpu arm64     For Linux on arm64, with Debian's cross compiler: kernels without oneDNN.
  --without-cuda  Build @mtl/comm also where the headers of NCCL or CUDA are missing: then it has no NCCL engine.`);

/** Ends the program with the error of a wrong argument. */
function refuse(message) {
  console.error(`error[MTL_FLAG_VALUE]: npm run dev -- build:platform: ${message}`);
  process.exit(2);
}

const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: { cpu: { type: 'string', default: process.arch }, 'without-cuda': { type: 'boolean' } },
});
const [only] = positionals;
if (![process.arch, 'arm64'].includes(given.cpu))
  refuse(`--cpu is ${given.cpu}, expected ${process.arch} or arm64`);
const platforms = platformFoldersFor(root, given.cpu);
const wanted = platforms.filter(({ part, isAddon }) => (only === undefined ? isAddon : part === only));
if (wanted.length === 0)
  refuse(`unknown part ${only}; expected ${platforms.map(({ part }) => part).join(', ')}`);
ensurePackages();
const cache = join(root, '.cache', 'release');
for (const platform of wanted) {
  buildPlatformPackage({ root, cache, platform, withCuda: given['without-cuda'] !== true });
  checkPlatformPackage(platform);
}
