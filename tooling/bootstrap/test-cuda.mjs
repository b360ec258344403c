#!/usr/bin/env node
/**
 * npm run dev -- test:cuda: runs all CUDA tests, on the GPU if there is one and under emulation on this
 * machine's processor. If there is no GPU, tests that need a GPU are skipped and counted. First come the
 * tests of operations (packages/kernels/test/cuda/run-tests.mjs, whose comment explains --sanitize). Then
 * come ranks on GPUs: collectives, and training runs of two processes compared with one process. Then come
 * short training runs of one process, and `mtl doctor`. On a GPU, training runs are also compared with
 * PyTorch and the CPU.
 * npm run dev -- test:cuda: on the GPU and under emulation
 * npm run dev -- test:cuda --emulation: under emulation only, which needs neither nvcc nor a GPU
 * npm run dev -- test:cuda --ranks: only tests of several ranks
 * All further arguments are passed to vitest.
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

/** Runs a command and returns its exit status. The command prints to the output of this process. */
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

/** Builds a target. Ends the program if the build fails. */
function build(words, cwd) {
  const status = run(['node', join(root, 'tooling/native/build-native.mjs'), ...words], { cwd });
  if (status !== 0) process.exit(status);
}
// builds the NCCL fake, which prints a message if nccl.h is not found; also builds the addon again, because
// its last build may be older than the installation of that header
for (const target of [[], ['--target', 'nccl_process_fake']]) build(target, join(root, 'packages/comm'));

const trainingsOfRanks = ['test/cuda/ranks'];
/** The training tests that are fast enough under emulation. All other training tests would take minutes. */
const shortTrainings = [...trainingsOfRanks, 'test/cuda/one-rank'];

/**
 * Runs the tests of ranks, and the training runs in `ofTrainings`, with the CUDA library that `env` names.
 */
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
    // without --ranks, the tests of operations have built the emulation already
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
