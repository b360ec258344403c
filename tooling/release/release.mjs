#!/usr/bin/env node
/**
 * npm run release: versions, builds, checks and publishes all packages. With --dry-run, works in a copy of
 * the checkout and publishes nothing.
 */
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { answerHelp } from '../bootstrap/answer-help.mjs';
import { ensurePackages, root, toolEnvironment } from '../bootstrap/bootstrap.mjs';

answerHelp(`usage: npm run release [-- --dry-run] [--without-cuda]

Raises the versions and writes the changelogs by the changesets, builds all packages and the platform packages of this
machine, checks them (publint, types, the examples of the READMEs, symbol versions, an installation on a bare machine),
and publishes them with provenance, platform packages first. It needs a clean checkout on Debian 12, root and debootstrap.

  --dry-run       Does everything but publishing, in a copy of the checkout.
  --without-cuda  Leaves out @mtl/kernels-cuda-linux-x64, which needs nvcc and many minutes: --device cuda then takes a
                  library that users build. And the NCCL engine of @mtl/comm where NCCL's headers are missing.`);

const words = process.argv.slice(2);
if (words.some((word) => word !== '--dry-run' && word !== '--without-cuda')) {
  console.error(
    `error[MTL_FLAG_UNKNOWN]: npm run release: ${words.join(' ')}; expected --dry-run, --without-cuda or nothing`,
  );
  process.exit(2);
}
const isDry = words.includes('--dry-run');
const how = {
  env: { ...toolEnvironment(), MTL_RELEASE_CACHE: join(root, '.cache', 'release') },
  stdio: 'inherit',
};
ensurePackages();
if (isDry) {
  const { copyRepository } = await import('../packaging/repository-copy.mjs');
  const { directory } = copyRepository();
  try {
    rmSync(join(directory, 'node_modules')); // a link: the copy installs its own
    process.exitCode = releaseIn(directory, words);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
} else {
  process.exitCode = releaseIn(root, words);
}

function releaseIn(directory, flags) {
  const script = join(directory, 'tooling', 'release', 'release-steps.mjs');
  return spawnSync(process.execPath, [script, ...flags], { cwd: directory, ...how }).status ?? 1;
}
