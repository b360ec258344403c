import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { lowestGlibc } from '../native/lowest-glibc.mjs';
import { sourceHash } from '../native/source-hash.mjs';
import { osRelease } from './debian-source.mjs';
import { portableGloo } from './portable-gloo.mjs';
import { portableOneDnn } from './portable-onednn.mjs';
import { runStep } from './run-step.mjs';

const entryPoints = fileURLToPath(new URL('entry-points.map', import.meta.url));
/** The linker flags: libstdc++, and everything else that is not called from outside, is not exported. */
const linkerFlags = `-static-libstdc++ -Wl,--gc-sections -Wl,--version-script=${entryPoints} -s`;

/**
 * The requirements for each kind of platform package: libraries that are linked statically, CMake options
 * (`cudaOptions` if the CUDA packages are also released), and files to add next to the built file. On arm64
 * the kernels multiply all matrices themselves, and ranks have no GPUs.
 */
const parts = {
  kernels: {
    libraries: [portableOneDnn],
    options: ['-DMTL_INSTRUCTION_SETS=all'],
    onArm64: { libraries: [], options: ['-DMTL_INSTRUCTION_SETS=all', '-DMTL_ONEDNN=OFF'] },
    built: ['mtl_kernels.node'],
    // the compiler's archive of libgomp is not position independent, so it cannot be linked into a shared
    // library
    ofCompiler: ['libgomp.so.1'],
  },
  comm: {
    libraries: [portableGloo],
    options: ['-DMTL_INSTRUCTION_SETS=all'],
    // NCCL is opened at run time, so the build needs only its headers
    cudaOptions: ['-DMTL_REQUIRED_ENGINES=nccl'],
    onArm64: { cudaOptions: [] },
    built: ['mtl_comm.node', 'libmtl_comm_gloo.so'],
    ofCompiler: [],
  },
  'kernels-cuda': {
    libraries: [],
    options: ['-DMTL_CUDA=ON'],
    built: ['libmtl_cuda.so'],
    ofCompiler: ['libgomp.so.1'],
    licenses: cudaLicenses,
    ifNotBuilt: 'nvcc of CUDA 13 was not found: install the toolkit, or set CUDA_HOME',
  },
};

/** The cross compiler of a processor that this machine does not have, with the options that CMake needs. */
const crossCompilers = {
  arm64: {
    compiler: 'aarch64-linux-gnu-g++',
    options: [`-DCMAKE_TOOLCHAIN_FILE=${fileURLToPath(new URL('../native/arm64.cmake', import.meta.url))}`],
  },
};

/**
 * Returns the compiler for a processor. `cached` is the folder below `cache` for what it compiles.
 *
 * @throws Error with the Debian package to install, if the compiler is missing
 */
function findCompiler({ cpu, cache }) {
  if (cpu === process.arch) return { compiler: process.env.CXX ?? 'c++', options: [], cached: cache };
  const { compiler, options } = crossCompilers[cpu];
  if (spawnSync(compiler, ['--version']).status !== 0)
    throw new Error(`${compiler} was not found: sudo apt-get install g++-aarch64-linux-gnu`);
  return { compiler, options, cached: join(cache, cpu) };
}

/** Returns the licences of the GCC runtime libraries' code that every package contains. */
function runtimeLicenses() {
  return {
    'GCC-RUNTIME-COPYRIGHT': '/usr/share/doc/libgomp1/copyright', // with the runtime library exception
    'GPL-3': '/usr/share/common-licenses/GPL-3',
  };
}

/**
 * Returns the licence of NVIDIA's runtime, which is linked into the CUDA library. Finds the licence in the
 * CUDA toolkit or in NVIDIA's wheel.
 */
function cudaLicenses() {
  const toolkits = [process.env.CUDA_HOME, process.env.CUDA_PATH, '/usr/local/cuda'].filter(Boolean);
  const found = toolkits.flatMap((toolkit) => {
    const wheels = join(toolkit, 'dist-info');
    const runtimes = existsSync(wheels)
      ? readdirSync(wheels).filter((entry) => entry.startsWith('nvidia_cuda_runtime-'))
      : [];
    return [
      join(toolkit, 'EULA.txt'),
      ...runtimes.map((entry) => join(wheels, entry, 'licenses', 'License.txt')),
    ];
  });
  return { 'NVIDIA-CUDA-TOOLKIT': found.find(existsSync) ?? 'EULA.txt of the CUDA toolkit' };
}

/**
 * Compiles the addon or library of a platform package so that it runs on any machine of this platform: its
 * libraries are linked into it, and it exports only the symbols that are called. Writes the result, the
 * licences and built-from.json to the package's folder. Libraries are built below `cache`, once for all
 * checkouts that use the same cache. If `withCuda` is true, everything for GPUs must be built, too.
 */
export function buildPlatformPackage({ root, cache, platform, withCuda }) {
  const { name, directory, part, packageOf, cpu } = platform;
  const {
    libraries,
    options,
    cudaOptions = [],
    built,
    ofCompiler,
    licenses = () => ({}),
    ifNotBuilt,
  } = { ...parts[part], ...(cpu === 'arm64' ? parts[part].onArm64 : {}) };
  const { compiler, options: ofCompilation, cached } = findCompiler({ cpu, cache });
  mkdirSync(cached, { recursive: true });
  const linked = libraries.map((library) => library(cached, ofCompilation));
  const build = join(root, '.cache', 'release', `${part}-${cpu}-addon`);
  runStep(
    process.execPath,
    [
      join(root, 'tooling', 'native', 'build-native.mjs'),
      ...['--build-dir', build, ...ofCompilation],
      ...linked.flatMap(({ cmakeOptions }) => cmakeOptions),
      ...options,
      ...(withCuda ? cudaOptions : []),
      ...[`-DCMAKE_MODULE_LINKER_FLAGS=${linkerFlags}`, `-DCMAKE_SHARED_LINKER_FLAGS=${linkerFlags}`],
      ...['-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON', '-DCMAKE_INSTALL_RPATH=$ORIGIN'],
    ],
    { cwd: join(root, 'packages', packageOf) },
  );
  const missing = built.filter((file) => !existsSync(join(build, file)));
  if (missing.length > 0) throw new Error(`${name}: ${missing.join(', ')} was not built; ${ifNotBuilt}`);
  for (const file of built) copyFileSync(join(build, file), join(directory, file));
  for (const file of ofCompiler)
    copyFileSync(runStep(compiler, [`-print-file-name=${file}`]).trim(), join(directory, file));
  writeLicenses({
    directory,
    licenses: [...linked.map((library) => library.licenses), licenses(), runtimeLicenses()],
  });
  const description = {
    sources: sourceHash({ root, name: packageOf }),
    lowestGlibc,
    system: osRelease('PRETTY_NAME'),
    compiler: runStep(compiler, ['--version']).split('\n')[0],
    libraries: linked.map(({ name, version, options }) => ({ name, version, options })),
  };
  writeFileSync(join(directory, 'built-from.json'), `${JSON.stringify(description, null, 2)}\n`);
  console.log(`${name}: built in ${directory}`);
}

function writeLicenses({ directory, licenses }) {
  const folder = join(directory, 'licenses');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  for (const [file, source] of licenses.flatMap(Object.entries)) {
    if (!existsSync(source)) throw new Error(`the licence ${source} is not there, and must be published`);
    copyFileSync(source, join(folder, file));
  }
}
