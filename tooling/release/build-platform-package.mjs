import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { lowestGlibc } from '../native/lowest-glibc.mjs';
import { sourceHash } from '../native/source-hash.mjs';
import { osRelease } from './debian-source.mjs';
import { portableOneDnn } from './portable-libraries.mjs';
import { runStep } from './run-step.mjs';

const symbols = fileURLToPath(new URL('node-api.map', import.meta.url));
const linkerFlags = `-static-libstdc++ -Wl,--gc-sections -Wl,--version-script=${symbols} -s`;

/** What each addon brings: libraries that are linked statically, and files next to the addon. */
const parts = {
  kernels: {
    libraries: [portableOneDnn],
    built: ['mtl_kernels.node'],
    // GCC's archive of libgomp cannot be linked into a shared library: it is not position independent
    ofCompiler: ['libgomp.so.1'],
  },
  // Gloo is the machine's: those who train on several hosts compile with it
  comm: {
    libraries: [],
    options: ['-DCMAKE_DISABLE_FIND_PACKAGE_Gloo=ON'],
    built: ['mtl_comm.node'],
    ofCompiler: [],
  },
};

const compiler = process.env.CXX ?? 'c++';

/** The licences of what GCC's runtime libraries bring into every package. */
function runtimeLicenses() {
  return {
    'GCC-RUNTIME-COPYRIGHT': '/usr/share/doc/libgomp1/copyright', // with the runtime library exception
    'GPL-3': '/usr/share/common-licenses/GPL-3',
  };
}

/**
 * Compiles the addon of `packages/ADDONOF` so that it runs on any machine of this platform (libraries inside,
 * nothing visible but what Node calls), and puts it into the folder of its platform package with licences and
 * built-from.json. Libraries are built below `cache`, once for all checkouts that share it.
 */
export function buildPlatformPackage({ root, cache, platform: { name, directory, addonOf } }) {
  const { libraries, options = [], built, ofCompiler } = parts[addonOf];
  mkdirSync(cache, { recursive: true });
  const linked = libraries.map((library) => library(cache));
  const build = join(root, '.cache', 'release', `${addonOf}-addon`);
  runStep(
    process.execPath,
    [
      join(root, 'tooling', 'native', 'build-native.mjs'),
      ...['--build-dir', build],
      ...linked.flatMap(({ cmakeOptions }) => cmakeOptions),
      ...options,
      '-DMTL_INSTRUCTION_SETS=all',
      `-DCMAKE_MODULE_LINKER_FLAGS=${linkerFlags}`,
      ...['-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON', '-DCMAKE_INSTALL_RPATH=$ORIGIN'],
    ],
    { cwd: join(root, 'packages', addonOf) },
  );
  for (const file of built) copyFileSync(join(build, file), join(directory, file));
  for (const file of ofCompiler)
    copyFileSync(runStep(compiler, [`-print-file-name=${file}`]).trim(), join(directory, file));
  writeLicenses({ directory, licenses: [...linked.map(({ licenses }) => licenses), runtimeLicenses()] });
  const description = {
    sources: sourceHash({ root, name: addonOf }),
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
