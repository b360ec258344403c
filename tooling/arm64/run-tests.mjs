#!/usr/bin/env node
/**
 * npm run dev -- test:arm64: compiles the platform packages for arm64, and runs the tests of tests.mjs with
 * them in Node.js for arm64 under qemu.
 */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { answerHelp } from '../bootstrap/answer-help.mjs';
import { installDebianPackages } from '../processes/install-debian-packages.mjs';
import { emulator, needs, prepareEmulatedNode, startsEmulatedChildren } from './emulated-node.mjs';
import { programs, tests } from './tests.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));

answerHelp(`usage: npm run dev -- test:arm64 [--only TEXT]

Compiles the platform packages for Linux on arm64 with Debian's cross compiler, and runs under qemu with them: the native tests
of @mtl/comm, operations against the reference and PyTorch, gradients, ranks, and training on two ranks.

  --only TEXT  The sections whose title contains it.`);

const { values: given } = parseArgs({ options: { only: { type: 'string', default: '' } } });
const missing = installDebianPackages(needs);
if (missing.length > 0) {
  const remedy = `sudo apt-get install ${missing.join(' ')}`;
  console.error(`error[MTL_ARM64]: nothing runs without ${missing.join(', ')}\n  remedy: ${remedy}`);
  process.exit(2);
}

const cache = join(root, '.cache', 'release');
const node = prepareEmulatedNode(join(cache, 'nodes'));
const addon = (name) => join(root, 'platforms', `${name}-linux-arm64`, `mtl_${name}.node`);
const environment = {
  MTL_KERNELS_ADDON: addon('kernels'),
  MTL_COMM_ADDON: addon('comm'),
  // tests in an emulated process read builds, and bundle what they start with this machine's esbuild
  MTL_TEST_BUILDS: '1',
  ESBUILD_BINARY_PATH: locateEsbuild(),
};
// One worker reads the modules of all files: a new one takes seconds, and vitest gives up on a slow start.
const slowly = ['--maxWorkers=1', '--no-isolate', '--testTimeout=900000', '--hookTimeout=900000'];
const vitest = join(root, 'tooling/node_modules/vitest/vitest.mjs');
const native = join(root, 'tooling/native');
const comm = join(root, 'packages/comm');
const sections = [
  {
    title: 'platform packages',
    words: [process.execPath, 'tooling/release/build-platform.mjs', '--cpu', 'arm64'],
  },
  {
    title: 'native tests of packages/comm, compiled',
    words: [
      ...[process.execPath, join(native, 'build-native.mjs'), '--build-dir', 'build/arm64'],
      ...['--target', 'comm_native_tests', `-DCMAKE_TOOLCHAIN_FILE=${join(native, 'arm64.cmake')}`],
    ],
    cwd: comm,
  },
  {
    title: 'native tests of packages/comm',
    words: [...emulator, './build/arm64/comm_native_tests'],
    cwd: comm,
  },
  ...tests.map(({ folder, files, names }) => ({
    title: `${folder} ${files.join(' ')}${names === undefined ? '' : `, ${names}`}`,
    // vitest transforms on this machine's Node.js, and its workers, which run the tests, are emulated
    words: [
      ...[
        process.execPath,
        ...startsEmulatedChildren,
        vitest,
        'run',
        '--pool=forks',
        '--reporter=dot',
        ...slowly,
      ],
      ...(names === undefined ? [] : ['-t', names]),
      ...files,
    ],
    cwd: join(root, folder),
    env: environment,
  })),
  ...programs.map((words) => ({ title: words.join(' '), words: [node, ...words], env: environment })),
];
const chosen = sections.filter(({ title }) => title.includes(given.only));
if (chosen.length === 0) {
  console.error(`error[MTL_FLAG_VALUE]: --only is ${given.only}, and no section has that in its title`);
  process.exit(2);
}
const failed = chosen.filter(({ title, words: [command, ...words], cwd = root, env = {} }) => {
  console.log(`arm64: ${title}`);
  const started = Date.now();
  const { status } = spawnSync(command, words, { cwd, stdio: 'inherit', env: { ...process.env, ...env } });
  console.log(`arm64: ${title}: ${((Date.now() - started) / 1000).toFixed(0)} s`);
  return status !== 0;
});
for (const { title } of failed) console.error(`failed: ${title}`);
process.exit(failed.length === 0 ? 0 : 1);

/** Returns the path of this machine's esbuild, which the packages of @mtl/tooling call. */
function locateEsbuild() {
  const require = createRequire(join(root, 'tooling', 'package.json'));
  const ofEsbuild = createRequire(require.resolve('esbuild/package.json'));
  return ofEsbuild.resolve(`@esbuild/${process.platform}-${process.arch}/bin/esbuild`);
}
