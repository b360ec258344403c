#!/usr/bin/env node
/**
 * npm run dev -- bundle:cuda: packs everything that the tests and benchmarks of device cuda need into one
 * file, for a GPU machine without network and without Node. The file contains this checkout's sources and
 * builds, the npm modules that they use, Node itself, the shared libraries that are missing on a bare system,
 * and the comparison program for PyTorch if MTL_PEER names one.
 * node tooling/cuda/bundle-cuda.mjs [--out mtl-cuda.tar.xz] [--for-checkout] [--architecture NAME]
 * [--without-cuda] [--without-nccl]
 * Everything must be built; npm run dev -- bundle:cuda does that first. --for-checkout leaves out the tracked
 * files, which are in a checkout next to the bundle (take-sources.mjs, in the bundle, copies them).
 * --architecture takes the CUDA library that was built for only that architecture. --without-cuda leaves the
 * library out, for tests of the bundle on machines without nvcc. --without-nccl allows ranks that cannot use
 * NCCL, because nccl.h was missing when they were compiled. bundle.json lists the communication engines in
 * the bundle. The program ends with status 2 if the file is larger than 60 MB, or 42 MB with --for-checkout.
 * on the GPU machine: tar -xf mtl-cuda.tar.xz && ./mtl-cuda/run-on-gpu.sh all --out results
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { emulatedFiles } from '@mtl/cuda-emulation/libraries';
import { cudaBuildFolder, kernelsBuildFolder } from './bundle-builds.mjs';
import { moduleClosure } from './module-closure.mjs';
import { neededLibraries, requiredVersions } from './shared-libraries.mjs';
import { computeDigests } from './take-sources.mjs';
import { testFolders } from './test-folders.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
/**
 * The maximum sizes, in bytes, of a bundle with everything and of a bundle for a checkout (see
 * bundle.test.mjs).
 */
const mostBytes = { whole: 60e6, forCheckout: 42e6 };
const leftOutFiles = [
  ...['*.map', '*.d.ts', '*.d.cts', '*.flow', '.files'],
  '*/node_modules/zod/src/*', // the sources of zod
  // this is esbuild's command; esbuild's package for this platform contains the same program
  '*/node_modules/esbuild/bin/esbuild',
  '*/datasets-sotu/data/*.json', // the corpus is read from text files next to these files
];
const name = 'mtl-cuda';
const { values } = parseArgs({
  options: {
    out: { type: 'string', default: `${name}.tar.xz` },
    'for-checkout': { type: 'boolean', default: false },
    architecture: { type: 'string' },
    'without-cuda': { type: 'boolean', default: false },
    'without-nccl': { type: 'boolean', default: false },
  },
});

function fail(message, remedy) {
  console.error(`error[MTL_BUNDLE]: ${message}\n  remedy: ${remedy}`);
  process.exit(2);
}

function run(command, args) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (status !== 0) {
    fail(
      `${command} ${args[0]} ended with ${error?.message ?? status}: ${stderr}`,
      'see the output above for the reason',
    );
  }
  return stdout;
}

const { MTL_PEER: peer } = process.env;
if (peer !== undefined && !existsSync(peer)) {
  fail(
    `MTL_PEER names ${peer}, which is not there`,
    'name a script that times PyTorch, or leave MTL_PEER unset',
  );
}
const workspace = ['packages', 'apps'].flatMap((group) =>
  readdirSync(join(root, group)).map((folder) => `${group}/${folder}`),
);
const comm = 'packages/comm/build/Release';
const kernelsRelease = 'packages/kernels/build/Release';
// Debian's libgloo is optional, so this library, which is opened at run time, may be missing in the bundle
const glooLibrary = `${comm}/libmtl_comm_gloo.so`;
const engines = { local: true, gloo: existsSync(join(root, glooLibrary)), nccl: false };
if (!engines.gloo) console.log(`without the engine gloo: ${glooLibrary} is not built`);
/**
 * Native programs and libraries. The keys are the paths in the bundle, which are the same as in a checkout.
 * The values are the paths on this machine.
 */
const natives = new Map([
  ...[
    `${kernelsRelease}/mtl_kernels.node`,
    `${kernelsRelease}/kernels_native_tests`,
    ...emulatedFiles.map((path) => relative(root, path)),
  ].map((path) => [path, path.replace(kernelsRelease, `packages/kernels/${kernelsBuildFolder}`)]),
  ...[`${comm}/mtl_comm.node`, ...(engines.gloo ? [glooLibrary] : [])].map((path) => [path, path]),
]);
if (!values['without-cuda']) {
  const libraryIn = (folder) => `packages/kernels/${folder}/libmtl_cuda.so`;
  natives.set(libraryIn(cudaBuildFolder()), libraryIn(cudaBuildFolder(values.architecture)));
}
const builds = workspace.map((folder) => `${folder}/dist`);
for (const path of [...builds, ...natives.values()]) {
  if (existsSync(join(root, path))) continue;
  fail(`${path} is not built`, 'npm run dev -- bundle:cuda builds it; libmtl_cuda.so needs nvcc');
}

/** Returns true if the engine nccl was compiled. NCCL's library may still be missing on this machine. */
function hasNcclEngine() {
  const index = JSON.stringify(join(root, 'packages/comm/dist/index.js'));
  const script = `import { ncclInformation } from ${index};
try { ncclInformation(); console.log('built'); } catch ({ code }) { console.log(code); }`;
  return run(process.execPath, ['--input-type=module', '--eval', script]).trim() !== 'MTL_NCCL_NOT_BUILT';
}
engines.nccl = hasNcclEngine();
if (!engines.nccl && !values['without-nccl']) {
  const remedy = 'install NCCL (pip install nvidia-nccl-cu13) and build again, or bundle --without-nccl';
  fail('@mtl/comm was built without nccl.h: ranks could not use NCCL there', remedy);
}

// the bundle contains the sources that tests need; documents and CI files are left out
const isLeftOut = (path) => /^(docs|\.changeset|\.ci|tooling\/(fixtures\/make|packaging))/.test(path);
const sources = run('git', ['ls-files'])
  .trim()
  .split('\n')
  .filter((path) => !isLeftOut(path));
const without =
  /^(esbuild|tsup|tsx|typescript|typedoc|lightningcss|@types\/.*|node-addon-api|node-api-headers|gpt-tokenizer)$/;
const readName = (folder) => JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')).name;
/** The workspace packages on which tests and benchmarks depend. node_modules contains only links to them. */
const ownPackages = [...workspace.map(readName), '@mtl/tooling', '@mtl/cuda-emulation'];
const modules = new Set([
  ...moduleClosure({ root, workspace, without, alsoNeeded: ownPackages }),
  // The packages whose tests run on the GPU machine, including the test runner and its configuration.
  ...moduleClosure({
    root,
    without,
    workspace: [...testFolders.map(({ folder }) => folder), 'tooling', 'tooling/measure'],
    alsoNeeded: [...ownPackages, 'vitest', 'fast-check'],
  }),
  // Includes esbuild, which runs TypeScript in the ranks of tests. Only the copy in tooling is needed; the
  // test runner has further copies.
  ...moduleClosure({ root, workspace: ['tooling'], without: /^(?!esbuild$|@esbuild\/)/ }),
]);

const stage = mkdtempSync(join(tmpdir(), 'mtl-bundle-'));
const out = resolve(values.out);
try {
  /** Copies the file `path` into the bundle, under the path `as`. */
  const put = (path, as) => {
    mkdirSync(dirname(join(stage, as)), { recursive: true });
    cpSync(realpathSync(path), join(stage, as));
  };
  put(process.execPath, 'bin/node');
  run('strip', ['--strip-unneeded', join(stage, 'bin/node')]);
  for (const program of ['run-on-gpu.sh', 'take-sources.mjs']) {
    put(join(root, 'tooling/cuda', program), program);
  }
  if (values['for-checkout']) {
    writeFileSync(join(stage, 'sources.json'), JSON.stringify(computeDigests(root, sources)));
  }
  if (peer !== undefined) put(peer, 'peer/gpt_torch.py');
  for (const [as, path] of natives) {
    put(join(root, path), as);
    run('strip', ['--strip-unneeded', join(stage, as)]);
  }
  const binaries = [...natives.values()].map((path) => join(root, path));
  for (const { soname, path, isCompatibility } of neededLibraries(binaries)) {
    put(path, isCompatibility ? `lib/compat/${soname}` : `lib/${soname}`);
  }
  const description = {
    commit: run('git', ['rev-parse', 'HEAD']).trim(),
    changed: run('git', ['status', '--porcelain', '--untracked-files=no']).trim().split('\n').filter(Boolean),
    date: new Date().toISOString(),
    node: process.version,
    cuda: !values['without-cuda'],
    architecture: values.architecture ?? 'all',
    engines,
    yardstick: peer === undefined ? null : basename(peer),
    requires: requiredVersions([...binaries, join(stage, 'bin/node')]),
  };
  writeFileSync(join(stage, 'bundle.json'), `${JSON.stringify(description, null, 1)}\n`);

  const list = join(stage, '.files');
  writeFileSync(list, [...(values['for-checkout'] ? [] : sources), ...builds, ...modules].join('\n'));
  run('tar', [
    // The bundle is compressed with a window of 64 MB, because some modules occur twice, and with the filter
    // for machine code, which is half of the bundle.
    ...['--create', '--use-compress-program', 'xz --x86 --lzma2=preset=9e', '--file', out],
    // These flags leave the targets of symbolic links unchanged. Hard links to pnpm's store are copied as
    // files, because they would be broken in the bundle.
    `--transform=flags=rH;s,^\\./,,;s,^,${name}/,`,
    ...['--hard-dereference', '--owner=0', '--group=0'],
    ...leftOutFiles.map((pattern) => `--exclude=${pattern}`),
    ...['--directory', root, '--files-from', list, '--directory', stage, '.'],
  ]);
} finally {
  rmSync(stage, { recursive: true });
}
const { size } = statSync(out);
console.log(`${out}: ${(size / 1e6).toFixed(1)} MB`);
console.log(`  tar -xf ${basename(out)} && ./${name}/run-on-gpu.sh all --out results`);
const most = mostBytes[values['for-checkout'] ? 'forCheckout' : 'whole'];
if (size > most) fail(`${(size / 1e6).toFixed(1)} MB are more than ${most / 1e6}`, 'leave something out');
