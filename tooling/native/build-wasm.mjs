#!/usr/bin/env node
/**
 * npm run dev -- build:wasm [shared] [single] [relaxed] [--package]: compiles the kernels to WebAssembly, all
 * three modules or the named ones, and with --package puts all of them into @mtl/kernels-wasm32.
 */
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildNative, fail } from './native-build.mjs';
import { sourceHash } from './source-hash.mjs';

/** Debian's packages, and a file of each. */
const needed = {
  'clang-19': '/usr/bin/clang++-19',
  'lld-19': '/usr/bin/wasm-ld-19',
  'libc++-19-dev-wasm32': '/usr/lib/llvm-19/lib/wasm32-wasi/libc++.a',
  'libc++abi-19-dev-wasm32': '/usr/lib/llvm-19/lib/wasm32-wasi/libc++abi.a',
  'libclang-rt-19-dev-wasm32': '/usr/lib/llvm-19/lib/clang/19/lib/wasi/libclang_rt.builtins-wasm32.a',
  'wasi-libc': '/usr/lib/wasm32-wasi/libc.a',
};

const root = fileURLToPath(new URL('../..', import.meta.url));
const missing = Object.keys(needed).filter((name) => !existsSync(needed[name]));
if (missing.length > 0) {
  const install = ['install', '--yes', '--no-install-recommends', ...missing];
  console.log(`apt-get ${install.join(' ')}`);
  const isRoot = process.getuid() === 0;
  const { status } = isRoot ? spawnSync('apt-get', install, { stdio: 'inherit' }) : { status: 1 };
  if (status !== 0)
    fail(
      `the compiler for WebAssembly is incomplete: ${missing.join(', ')}`,
      `on Debian 12: sudo apt-get ${install.join(' ')}`,
    );
}
/** The modules, with the instruction sets of each. Plain vectors are for a test of their bits. */
const modules = {
  shared: { file: 'mtl_kernels.wasm', instructionSets: 'simd128;plain' },
  single: { file: 'mtl_kernels_single.wasm', instructionSets: 'simd128' },
  relaxed: { file: 'mtl_kernels_relaxed.wasm', instructionSets: 'relaxed_simd;simd128' },
};
const published = join(root, 'platforms', 'kernels-wasm32');
const kernels = join(root, 'packages', 'kernels');
const require = createRequire(join(published, 'package.json'));
const args = process.argv.slice(2);
const isPackage = args.includes('--package');
const named = isPackage ? [] : Object.keys(modules).filter((name) => args.includes(name));
for (const name of named.length === 0 ? Object.keys(modules) : named) await buildModule(name);
if (isPackage) fillPackage();

/**
 * Compiles a module in a folder of its own, and copies the module to where the loader looks for all three.
 */
async function buildModule(name) {
  const { file, instructionSets } = modules[name];
  const folder = name === 'shared' ? 'build/Wasm' : `build/Wasm/${name}`;
  await buildNative({
    directory: kernels,
    args: [
      ...['--build-dir', folder, `-DMTL_INSTRUCTION_SETS=${instructionSets}`, '-DMTL_ONEDNN=OFF'],
      `-DCMAKE_TOOLCHAIN_FILE=${join(kernels, 'native/platforms/wasm/toolchain.cmake')}`,
      `-DMTL_WEBASSEMBLY=${name}`,
      `-DEMNAPI_DIR=${dirname(require.resolve('emnapi/package.json'))}`,
      ...args.filter((each) => each !== '--package' && !(each in modules)),
    ],
  });
  if (name !== 'shared') copyFileSync(join(kernels, folder, file), join(kernels, 'build/Wasm', file));
}

/** Copies the modules into their package, with its licences and the record of its sources. */
function fillPackage() {
  for (const { file } of Object.values(modules))
    copyFileSync(join(kernels, 'build/Wasm', file), join(published, file));
  const licenses = join(published, 'licenses');
  rmSync(licenses, { recursive: true, force: true });
  mkdirSync(licenses);
  for (const name of ['libc++-19-dev-wasm32', 'wasi-libc'])
    copyFileSync(`/usr/share/doc/${name}/copyright`, join(licenses, name));
  copyFileSync(join(dirname(require.resolve('emnapi/package.json')), 'LICENSE'), join(licenses, 'emnapi'));
  const read = (command, words) => spawnSync(command, words, { encoding: 'utf8' }).stdout.trim();
  const description = {
    sources: sourceHash({ root, name: 'kernels' }),
    compiler: read('clang++-19', ['--version']).split('\n')[0],
    libraries: Object.fromEntries(
      Object.keys(needed).map((name) => [name, read('dpkg-query', ['-W', `-f=\${Version}`, name])]),
    ),
    emnapi: JSON.parse(readFileSync(require.resolve('emnapi/package.json'), 'utf8')).version,
  };
  writeFileSync(join(published, 'built-from.json'), `${JSON.stringify(description, null, 2)}\n`);
}
