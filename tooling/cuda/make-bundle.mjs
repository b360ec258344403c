#!/usr/bin/env node
/**
 * npm run dev -- bundle:cuda: makes the checkout ready, builds everything of device cuda, and packs it
 * (bundle-cuda.mjs).
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { answerHelp } from '../bootstrap/answer-help.mjs';
import { bootstrap, root, toolEnvironment } from '../bootstrap/bootstrap.mjs';
import { emulatedTargets } from '../cuda-emulation/emulated-libraries.mjs';

answerHelp(`usage: npm run dev -- bundle:cuda [FLAGS]

Builds what is not built yet, everything of device cuda too, and packs it for a machine with a GPU.

  --without-cuda  Does not build the CUDA library.`);
const args = process.argv.slice(2);
bootstrap(['build', 'build:native']);
if (!args.includes('--without-cuda')) bootstrap(['build:cuda']);
const run = (script, given, cwd) => {
  const options = { cwd, env: toolEnvironment(), stdio: 'inherit' };
  const { status } = spawnSync(process.execPath, [join(root, 'tooling', script), ...given], options);
  if (status !== 0) process.exit(status ?? 1);
};
for (const target of ['kernels_native_tests', ...emulatedTargets]) {
  run('native/build-native.mjs', ['--target', target], join(root, 'packages/kernels'));
}
run('cuda/bundle-cuda.mjs', args, process.cwd());
