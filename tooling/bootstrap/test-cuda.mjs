#!/usr/bin/env node
/**
 * npm run dev -- test:cuda: everything that runs on a GPU, first all operations
 * (packages/kernels/test/cuda/run-tests.mjs, which says what --sanitize does), then ranks on GPUs:
 * collectives, and training runs of two processes compared with one; short training runs of one process,
 * and what mtl doctor finds; on a GPU also training runs, compared with PyTorch and the CPU. On the GPU,
 * where there is one, and under emulation on this machine's processor; what has no GPU is skipped and
 * counted.
 *   npm run dev -- test:cuda                  both
 *   npm run dev -- test:cuda --emulation   under emulation only: needs neither nvcc nor a GPU
 *   npm run dev -- test:cuda --ranks       only what several ranks do
 * Other arguments go on to vitest.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { emulatedLibraries } from '../cuda-emulation/emulated-libraries.mjs';
import { answerHelp } from './answer-help.mjs';
import { bootstrap, root, toolEnvironment } from './bootstrap.mjs';

answerHelp(`usage: npm run dev -- test:cuda [FLAGS] [VITEST FLAGS]

Builds what is not built yet, and runs everything of device cuda: on a GPU where there is one, and under emulation.

  --emulation  Under emulation only: needs neither nvcc nor a GPU.
  --ranks      Only what several ranks do.
  --build-only Builds only.
  --sanitize   Operations only, under NVIDIA's Compute Sanitizer.`);
const kernels = join(root, 'packages/kernels');
const args = process.argv.slice(2);
const take = (flag) => {
  const at = args.indexOf(flag);
  return at >= 0 && args.splice(at, 1).length > 0;
};

/** Runs a command and returns its status; its output goes to the output of this process. */
function run(words, { cwd = root, env = {} } = {}) {
  const [command, ...rest] = words;
  const how = { cwd, env: { ...toolEnvironment(), ...env }, stdio: 'inherit' };
  const { status, error } = spawnSync(command, rest, how);
  if (error !== undefined) throw error;
  return status ?? 1;
}

const isSanitizing = args.includes('--sanitize');
if (!isSanitizing) bootstrap(['build', 'build:native']);
const onlyRanks = take('--ranks');
const operations = ['node', 'test/cuda/run-tests.mjs', ...args];
const ofOperations = onlyRanks ? 0 : run(operations, { cwd: kernels });
if (isSanitizing) process.exit(ofOperations);
const isEmulationOnly = take('--emulation');

/** Builds a target; ends the program if the build fails. */
function build(words, cwd) {
  const status = run(['node', join(root, 'tooling/native/build-native.mjs'), ...words], { cwd });
  if (status !== 0) process.exit(status);
}
// build the fake of NCCL, which prints a message if nccl.h is not found, and the addon, which may have been
// built before that header was installed
for (const target of [[], ['--target', 'nccl_process_fake']]) build(target, join(root, 'packages/comm'));

const trainingsOfRanks = ['test/cuda/ranks'];
/** Training tests that are fast enough under emulation: others take minutes there. */
const shortTrainings = [...trainingsOfRanks, 'test/cuda/one-rank'];

/** The tests of ranks and some training runs, with the CUDA library that `env` names. */
function testRanks(title, { env = {}, ofTrainings }) {
  console.log(`\n== ranks ${title}`);
  const test = (folder, files) => {
    const cwd = join(root, folder);
    return run([join(cwd, 'node_modules/.bin/vitest'), 'run', ...files, ...args], { cwd, env });
  };
  const ofRanks = Math.max(test('packages/comm', ['test/cuda']), test('apps/gpt-train', ofTrainings));
  return onlyRanks ? ofRanks : Math.max(ofRanks, test('packages/cli', ['test/cuda']));
}

async function testUnderEmulation() {
  if (onlyRanks) {
    // otherwise the tests of operations have built the emulation
    const words = ['node', 'test/cuda/run-tests.mjs', '--emulation', '--build-only'];
    if (run(words, { cwd: kernels }) !== 0) return 1;
  }
  const env = emulatedLibraries();
  const ofTrainings = onlyRanks ? trainingsOfRanks : shortTrainings;
  return testRanks('under emulation, on the processor', { env, ofTrainings });
}

function testOnGpu() {
  build(['--build-dir', 'build/Cuda', '-DMTL_CUDA=ON'], kernels);
  const hasLibrary = existsSync(join(kernels, 'build/Cuda/libmtl_cuda.so'));
  const title = `on the GPU${hasLibrary ? '' : ': no CUDA library was built'}`;
  return testRanks(title, { ofTrainings: onlyRanks ? trainingsOfRanks : ['test/cuda'] });
}

if (args.includes('--build-only')) process.exit(ofOperations); // everything is built by now
const onGpu = isEmulationOnly ? 0 : testOnGpu();
process.exit(ofOperations || onGpu || (await testUnderEmulation()));
