import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { instructionSetsToCompile } from './instruction-sets.mjs';
import { platformProblem } from './platform-problem.mjs';

const require = createRequire(import.meta.url);

function has(command) {
  return spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0;
}

/** Prints a build error with its remedy, and ends the process with status 2. */
export function fail(message, remedy) {
  console.error(`error[MTL_NATIVE_BUILD]: ${message}\n  remedy: ${remedy}`);
  process.exit(2);
}

function run(command, args) {
  const result = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
  const output = `${result.stdout ?? ''}${result.stderr ?? ''}`;
  checkEnd({ command, status: result.status ?? result.signal, output });
  return result.stdout;
}

/** If a command failed, prints the end of its output and a remedy, and ends the process. */
function checkEnd({ command, status, output }) {
  if (status !== 0) {
    const missing = /(oneDNN|OpenMP|OpenMP_CXX)[^\n]*(was not found|Could NOT find)[^\n]*/.exec(output)?.[0];
    console.error(output.split('\n').slice(-60).join('\n'));
    fail(
      `${command} ended with status ${status}${missing ? `: ${missing}` : ''}`,
      missing ? 'sudo apt-get install libdnnl-dev g++' : 'the compiler output above shows what went wrong',
    );
  }
}

/**
 * Returns the finished fraction of a build, read from an output line of Ninja (`[12/96]`) or Make (`[ 12%]`);
 * undefined for other lines.
 */
export function readProgress(line) {
  const [, done, all] = /^\[(\d+)\/(\d+)\]/.exec(line) ?? /^\[\s*(\d+)(%)\]/.exec(line) ?? [];
  if (done === undefined) return undefined;
  return Number(done) / (all === '%' ? 100 : Number(all));
}

/**
 * Returns a function that reports the progress of a build. If `MTL_BUILD_PROGRESS` names a folder, the
 * function writes to a file there, which the bootstrap reads. Otherwise, it writes to a line of the terminal,
 * if there is one.
 */
function progressReporter(directory) {
  const { MTL_BUILD_PROGRESS: folder } = process.env;
  if (folder !== undefined) {
    const path = join(folder, basename(resolve(directory)));
    return (share) => writeFileSync(path, String(share));
  }
  if (!process.stdout.isTTY) return () => {};
  return (share) =>
    process.stdout.write(`\rcompiling: ${Math.floor(100 * share)} %${share === 1 ? '\n' : ''}`);
}

/** Runs a build and reports its progress in the meantime. */
async function runBuild(args, report) {
  const child = spawn('cmake', args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  let shown = 0;
  const read = (text) => {
    output += text;
    const share = readProgress(output.slice(output.lastIndexOf('\n', output.length - 2) + 1));
    if (share === undefined || share <= shown) return;
    shown = share;
    report(share);
  };
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', read);
  const status = await new Promise((ended) => {
    child.on('error', (error) => ended(error.message));
    child.on('close', (code, signal) => ended(code ?? signal));
  });
  checkEnd({ command: 'cmake', status, output });
}

function formatHelp(command) {
  return `usage: ${command} [--build-dir DIRECTORY] [--target NAME] [-DNAME=VALUE ...]

Compiles the native addon of the package with CMake and a C++ compiler.

  --build-dir DIRECTORY  Where it is built. [build/Release of the package, where the package looks for it]
  --target NAME          Only this target of CMakeLists.txt. [all]
  -DNAME=VALUE           Given to CMake, such as -DCMAKE_BUILD_TYPE=Debug or -DMTL_CUDA=ON.
  --help                 Prints this and builds nothing.

CXX names another compiler. Kernels are compiled for all instruction sets. MTL_INSTRUCTION_SETS=machine compiles
only the sets of this machine, unless the folder contains others already; -DMTL_INSTRUCTION_SETS="avx2;avx512" names them.`;
}

/** The files in a build folder in which CMake, Ninja or Make store absolute paths. */
const configuredNames = [
  ...['CMakeCache.txt', 'CMakeFiles', 'cmake_install.cmake', 'build.ninja', 'Makefile'],
  ...['.ninja_deps', '.ninja_log'],
];

function isSameFolder(path, other) {
  return existsSync(path) && realpathSync(path) === realpathSync(other);
}

/**
 * Returns an entry of the CMake cache of a build folder; undefined if the folder was not configured or the
 * entry does not exist.
 */
function cacheEntry(buildDirectory, name) {
  const path = join(buildDirectory, 'CMakeCache.txt');
  if (!existsSync(path)) return undefined;
  return new RegExp(`^${name}:[A-Z]+=(.*)$`, 'm').exec(readFileSync(path, 'utf8'))?.[1];
}

/**
 * Returns the CMake option for instruction sets. `buildDirectory` may have been configured by an older
 * version.
 */
function instructionSetOption(buildDirectory) {
  const isConfigured = cacheEntry(buildDirectory, 'CMAKE_HOME_DIRECTORY') !== undefined;
  const sets = instructionSetsToCompile({
    asked: process.env.MTL_INSTRUCTION_SETS,
    configured: isConfigured ? (cacheEntry(buildDirectory, 'MTL_INSTRUCTION_SETS') ?? 'all') : undefined,
  });
  return `-DMTL_INSTRUCTION_SETS=${sets}`;
}

/**
 * Code that CMake reads after project(). With it, the linker writes a shared library next to its final path,
 * and a rename moves it there. A command that starts during a build therefore finds a complete library,
 * either the old or the new library.
 */
const linkAside = `foreach(language C CXX CUDA)
  foreach(kind LIBRARY MODULE)
    set(rule CMAKE_\${language}_CREATE_SHARED_\${kind})
    if(DEFINED \${rule} AND NOT "\${\${rule}}" MATCHES "<TARGET>.linked")
      string(REPLACE "-o <TARGET>" "-o <TARGET>.linked" \${rule} "\${\${rule}}")
      list(APPEND \${rule} "<CMAKE_COMMAND> -E rename <TARGET>.linked <TARGET>")
    endif()
  endforeach()
endforeach()
`;

function writeLinkAside(buildDirectory) {
  const path = resolve(buildDirectory, 'link-aside.cmake');
  if (!existsSync(path) || readFileSync(path, 'utf8') !== linkAside) writeFileSync(path, linkAside);
  return path;
}

/**
 * Removes the CMake configuration if the checkout was copied or moved, because its cache names the old folder
 * and CMake would fail. If the cache belongs to a different project, ends the process with an error.
 */
function forgetOtherPlace({ directory, buildDirectory }) {
  const readEntry = (name) => cacheEntry(buildDirectory, name);
  const source = readEntry('CMAKE_HOME_DIRECTORY');
  const build = readEntry('CMAKE_CACHEFILE_DIR');
  // an interrupted configuration does not contain the folders yet
  if (source === undefined || build === undefined) return;
  if (isSameFolder(source, directory) && isSameFolder(build, buildDirectory)) return;
  const project = readEntry('CMAKE_PROJECT_NAME');
  const own = /^\s*project\s*\(\s*(\w+)/m.exec(readFileSync(join(directory, 'CMakeLists.txt'), 'utf8'))?.[1];
  if (project !== own) {
    fail(
      `${resolve(buildDirectory)} is the build folder of another project (${project ?? 'unknown'}, in ${source})`,
      'pass another folder with --build-dir',
    );
  }
  console.log(`${buildDirectory} was configured in ${build}: configuring it again here`);
  for (const name of configuredNames) rmSync(join(buildDirectory, name), { recursive: true, force: true });
}

/**
 * Builds the native addon of the package in `directory` with CMake, and with Ninja if it is installed. `args`
 * are [--build-dir build/Release] [--target NAME] [-DNAME=VALUE ...]; a relative build folder is relative to
 * `directory`. If cmake, a compiler or a library for CMakeLists.txt is missing, or if the platform is not
 * supported, prints the remedy and ends the process with status 2.
 */
export async function buildNative({ directory, args, command = 'build-native.mjs' }) {
  if (args.some((word) => word === '--help' || word === '-h')) {
    console.log(formatHelp(command));
    return;
  }
  const problem = platformProblem();
  if (problem !== undefined) fail(`${problem.message}; expected ${problem.expected}`, problem.remedy);
  if (!has('cmake')) fail('cmake was not found', 'sudo apt-get install cmake');
  if (!has(process.env.CXX ?? 'c++') && !has('g++'))
    fail('no C++ compiler was found', 'sudo apt-get install g++');
  process.chdir(directory);
  const options = [...args];
  /**
   * Removes `flag` and its value from the options, and returns the value; undefined if the flag is absent.
   */
  const take = (flag) => {
    const at = options.indexOf(flag);
    return at < 0 ? undefined : options.splice(at, 2)[1];
  };
  const buildDirectory = take('--build-dir') ?? 'build/Release';
  const target = take('--target');
  mkdirSync(buildDirectory, { recursive: true });
  const instructionSets = instructionSetOption(buildDirectory); // a folder that was moved keeps its own
  forgetOtherPlace({ directory: '.', buildDirectory });
  const generator = has('ninja') ? ['-G', 'Ninja'] : [];
  const started = Date.now();
  const output = run('cmake', [
    ...['-S', '.', '-B', buildDirectory, ...generator],
    `-DNODE_ADDON_API_DIR=${dirname(require.resolve('node-addon-api'))}`,
    `-DNODE_API_HEADERS_DIR=${join(dirname(require.resolve('node-api-headers')), 'include')}`,
    instructionSets,
    `-DCMAKE_PROJECT_INCLUDE=${writeLinkAside(buildDirectory)}`,
    ...options,
  ]);
  // prints CMake's messages about optional parts, for example about an engine that is not built
  for (const [, line] of output.matchAll(/^-- (\w+ (?:engine|library): .*)$/gm)) console.log(line);
  const build = ['--build', buildDirectory, '--parallel', String(availableParallelism())];
  await runBuild(
    [...build, ...(target === undefined ? [] : ['--target', target])],
    progressReporter(directory),
  );
  console.log(`native build in ${buildDirectory}: ${((Date.now() - started) / 1000).toFixed(1)} s`);
}
