import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);

function has(command) {
  return spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0;
}

function fail(message, remedy) {
  console.error(`error[MTL_NATIVE_BUILD]: ${message}\n  remedy: ${remedy}`);
  process.exit(2);
}

function run(command, args) {
  const result = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
  if (result.status !== 0) {
    const output = `${result.stdout ?? ''}${result.stderr ?? ''}`;
    const missing = /(oneDNN|OpenMP|OpenMP_CXX)[^\n]*(was not found|Could NOT find)[^\n]*/.exec(output)?.[0];
    console.error(output.split('\n').slice(-60).join('\n'));
    fail(
      `${command} ended with status ${result.status ?? result.signal}${missing ? `: ${missing}` : ''}`,
      missing ? 'sudo apt-get install libdnnl-dev g++' : 'the compiler output above says what went wrong',
    );
  }
  return result.stdout;
}

/**
 * Builds the native addon of the package in `directory` with CMake (and Ninja where it is there).
 * `args`: [--build-dir build/Release] [--target NAME] [-DNAME=VALUE ...], a relative build folder counting
 * from `directory`. Ends the process with 2 and the remedy when cmake, a compiler or what CMakeLists.txt asks
 * for is missing.
 */
export function buildNative({ directory, args }) {
  if (!has('cmake')) fail('cmake was not found', 'sudo apt-get install cmake');
  if (!has(process.env.CXX ?? 'c++') && !has('g++'))
    fail('no C++ compiler was found', 'sudo apt-get install g++');
  process.chdir(directory);
  const options = [...args];
  /** The value of a flag, taken out of the arguments. */
  const take = (flag) => {
    const at = options.indexOf(flag);
    return at < 0 ? undefined : options.splice(at, 2)[1];
  };
  const buildDirectory = take('--build-dir') ?? 'build/Release';
  const target = take('--target');
  mkdirSync(buildDirectory, { recursive: true });
  const generator = has('ninja') ? ['-G', 'Ninja'] : [];
  const started = Date.now();
  const configured = run('cmake', [
    ...['-S', '.', '-B', buildDirectory, ...generator],
    `-DNODE_ADDON_API_DIR=${dirname(require.resolve('node-addon-api'))}`,
    `-DNODE_API_HEADERS_DIR=${join(dirname(require.resolve('node-api-headers')), 'include')}`,
    ...options,
  ]);
  // what an optional part says of itself
  for (const [, line] of configured.matchAll(/^-- (\w+ (?:engine|library): .*)$/gm)) console.log(line);
  run('cmake', [
    ...['--build', buildDirectory, '--parallel', String(availableParallelism())],
    ...(target === undefined ? [] : ['--target', target]),
  ]);
  console.log(`native build in ${buildDirectory}: ${((Date.now() - started) / 1000).toFixed(1)} s`);
}
