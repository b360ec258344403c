#!/usr/bin/env node
/**
 * npm run dev -- build:platform: compiles the platform packages of this machine's platform and checks them.
 */
import { join } from 'node:path';
import { answerHelp } from '../bootstrap/answer-help.mjs';
import { ensurePackages, root } from '../bootstrap/bootstrap.mjs';
import { buildPlatformPackage } from './build-platform-package.mjs';
import { checkPlatformPackage } from './check-platform-package.mjs';
import { platformFoldersHere } from './platform-folders.mjs';

answerHelp(`usage: npm run dev -- build:platform [PART] [--without-cuda]

Compiles the platform packages of this platform (@mtl/kernels-linux-x64 and so on) into platforms/, and checks
what they need from a machine. The first run builds oneDNN and Gloo from Debian's sources, which takes minutes.

  PART            Only this one: the addon of kernels or comm, or kernels-cuda, which needs nvcc and minutes. [both addons]
  --without-cuda  Build @mtl/comm also where the headers of NCCL or CUDA are missing: then it has no NCCL engine.`);

const args = process.argv.slice(2);
const [only] = args.filter((each) => each !== '--without-cuda');
const platforms = platformFoldersHere(root);
const wanted = platforms.filter(({ part, isAddon }) => (only === undefined ? isAddon : part === only));
if (wanted.length === 0) {
  const parts = platforms.map(({ part }) => part).join(', ');
  console.error(
    `error[MTL_FLAG_VALUE]: npm run dev -- build:platform: unknown part ${only}; expected ${parts}`,
  );
  process.exit(2);
}
ensurePackages();
const cache = join(root, '.cache', 'release');
for (const platform of wanted) {
  buildPlatformPackage({ root, cache, platform, withCuda: !args.includes('--without-cuda') });
  checkPlatformPackage(platform);
}
