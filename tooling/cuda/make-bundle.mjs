#!/usr/bin/env node
/**
 * npm run dev -- bundle:cuda: prepares the checkout, builds everything for device cuda, and packs it (see
 * bundle-cuda.mjs).
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { answerHelp } from '../bootstrap/answer-help.mjs';
import { bootstrap, root, toolEnvironment } from '../bootstrap/bootstrap.mjs';
import { emulatedTargets } from '../cuda-emulation/emulated-libraries.mjs';
import { cudaBuildArguments, kernelsBuildArguments } from './bundle-builds.mjs';

answerHelp(`usage: npm run dev -- bundle:cuda [FLAGS]

Builds what is not built yet, everything of device cuda too, and packs it for a machine with a GPU.

  --for-checkout       Leaves out what a checkout next to the bundle has; at most 42 MB instead of 60.
  --architecture NAME  Compiles the CUDA library for one architecture only, such as 90a (Hopper), instead
                       of two and PTX.
  --without-cuda       Does not build the CUDA library.
  --without-nccl       Packs ranks that cannot use NCCL, if nccl.h is not installed.
  --out FILE           [mtl-cuda.tar.xz]`);
const args = process.argv.slice(2);
const { values } = parseArgs({ strict: false, options: { architecture: { type: 'string' } } });
bootstrap(['build', 'build:native']);
const run = (script, given, cwd) => {
  const options = { cwd, env: toolEnvironment(), stdio: 'inherit' };
  const { status } = spawnSync(process.execPath, [join(root, 'tooling', script), ...given], options);
  if (status !== 0) process.exit(status ?? 1);
};
if (!args.includes('--without-cuda')) {
  run('native/build-native.mjs', cudaBuildArguments(values.architecture), join(root, 'packages/kernels'));
}
// builds the addon again, because its last build may be older than the installation of nccl.h
run('native/build-native.mjs', [], join(root, 'packages/comm'));
for (const target of [[], ...['kernels_native_tests', ...emulatedTargets].map((one) => ['--target', one])]) {
  run('native/build-native.mjs', [...kernelsBuildArguments, ...target], join(root, 'packages/kernels'));
}
run('cuda/bundle-cuda.mjs', args, process.cwd());
