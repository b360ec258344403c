#!/usr/bin/env node
/** npm run build:platform: compiles the platform packages of this machine's platform and checks them. */
import { join } from 'node:path';
import { answerHelp } from '../bootstrap/answer-help.mjs';
import { ensurePackages, root } from '../bootstrap/bootstrap.mjs';
import { buildPlatformPackage } from './build-platform-package.mjs';
import { checkPlatformPackage } from './check-platform-package.mjs';
import { platformFoldersHere } from './platform-folders.mjs';

answerHelp(`usage: npm run build:platform [-- NAME]

Compiles the platform packages of this platform (@mtl/kernels-linux-x64 and so on) into platforms/, and checks
what they need from a machine. The first run builds oneDNN from Debian's sources, which takes minutes.

  NAME  Only the package whose addon this is: kernels or comm.`);

const [only] = process.argv.slice(2);
ensurePackages();
const cache = join(root, '.cache', 'release');
for (const platform of platformFoldersHere(root)) {
  if (only !== undefined && platform.addonOf !== only) continue;
  buildPlatformPackage({ root, cache, platform });
  checkPlatformPackage(platform);
}
