#!/usr/bin/env node
/**
 * The first half of npm run dev -- test:cuda (tooling/bootstrap/test-cuda.mjs): the case tables of all
 * operations on device `cuda`, against the reference, and steps of tiny training runs: on the GPU, where
 * there is one, and under emulation on this machine's processor; there also how often a step waits for the
 * device. Arguments go on to vitest.
 *   npm run dev -- test:cuda                          both, and the compiler's report on spilled registers
 *   npm run dev -- test:cuda --emulation           under emulation only: needs neither nvcc nor a GPU
 *                        -- --emulation --build-only   builds the emulation and runs nothing
 *   npm run dev -- test:cuda --sanitize memcheck   the native tests on the GPU under compute-sanitizer (or racecheck,
 *                                              initcheck); with memcheck a few operations called from here,
 *                                              too
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { emulatedLibraries, emulatedTargets } from '@mtl/cuda-emulation/libraries';
import { sanitizedPrograms } from '@mtl/tooling/sanitized-programs';

const directory = fileURLToPath(new URL('../..', import.meta.url));
const build = (...args) => ['node', '../../tooling/native/build-native.mjs', ...args];

function run([command, ...args], environment = {}, cwd = directory) {
  const env = { ...process.env, ...environment };
  const { status, error } = spawnSync(command, args, { cwd, stdio: 'inherit', env });
  if (error !== undefined) throw error;
  return status ?? 1;
}

/** Runs a command concurrently with others: its output is printed when it has ended. */
function runBeside([command, ...args], environment, cwd) {
  const env = { ...process.env, ...environment };
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], env });
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => output.push(bytes));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status) => {
      process.stdout.write(Buffer.concat(output));
      resolve(status ?? 1);
    });
  });
}

/** Runs a command that must succeed before the rest makes sense. */
function must(...step) {
  const status = run(...step);
  if (status !== 0) process.exit(status);
}

const args = process.argv.slice(2);
const at = args.indexOf('--sanitize');
const tool = at < 0 ? undefined : args.splice(at, 2)[1];

/** Runs the tests on the library compiled for this processor. */
async function testUnderEmulation() {
  must(build());
  for (const target of emulatedTargets) must(build('--target', target));
  const libraries = emulatedLibraries();
  if (isBuildOnly) return 0;
  console.log('\n== under emulation, on the processor');
  const environment = {
    ...libraries,
    MTL_EMULATION_COUNTS: join(libraries.MTL_CUDA_LIBS, 'counts'),
    // detects reads by the host, or by a stream, that do not wait for their values
    MTL_EMULATION_STREAMS: process.env.MTL_EMULATION_STREAMS ?? 'late',
  };
  // the tests of each package take one process most of the time, so both packages are tested at once
  return Promise.all(places.map((cwd) => runBeside(testsIn(cwd), environment, cwd))).then(worst);
}

const buildOnlyAt = args.indexOf('--build-only');
const isBuildOnly = buildOnlyAt >= 0 && args.splice(buildOnlyAt, 1).length > 0;
const emulationAt = args.indexOf('--emulation');
const isEmulationOnly = emulationAt >= 0 && args.splice(emulationAt, 1).length > 0;
/**
 * The folders of the packages with tests of device cuda: of operations, and of training steps, which combine
 * operations.
 */
const places = [directory, join(directory, '../runs'), join(directory, '../planning')];
/** A package's tests of device cuda. */
const testsIn = (cwd) => [join(cwd, 'node_modules/.bin/vitest'), 'run', 'test/cuda', ...args];
const worst = (statuses) => Math.max(...statuses);
if (isEmulationOnly) process.exit(await testUnderEmulation());

must(build('--build-dir', 'build/Cuda', '-DMTL_CUDA=ON'));
const library = join(directory, 'build/Cuda/libmtl_cuda.so');
const nativeTests = join(directory, 'build/Release/kernels_native_tests');

if (tool !== undefined) {
  must(build('--target', 'kernels_native_tests'));
  const environment = { MTL_CUDA_LIBRARY: library };
  const sanitizer = ['compute-sanitizer', '--tool', tool, '--error-exitcode', '1'];
  const statuses = sanitizedPrograms({ kernels: directory, nativeTests })
    .filter(({ tools }) => tools.includes(tool))
    .map(({ command, args }) => run([...sanitizer, command, ...args], environment));
  process.exit(Math.max(...statuses));
}

console.log(`\n== on the GPU${existsSync(library) ? '' : ': no CUDA library was built'}`);
const resources = existsSync(library) ? run(['node', 'native/backends/cuda/check-resources.mjs']) : 0;
// one after the other, because both need the GPU's memory
const onGpu = worst(places.map((cwd) => run(testsIn(cwd), {}, cwd)));
process.exit(resources || onGpu || (await testUnderEmulation()));
