import { existsSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { debianSource } from './debian-source.mjs';
import { runStep } from './run-step.mjs';

/**
 * Builds a static library from Debian's sources with CMake, in a folder below `directory`, unless it is
 * already built. The headers, archive and CMake files are in `prefix`. `release` is the Debian release whose
 * sources are used (see `debianSource`). `listOptions` receives the version and returns CMake's options.
 * `prepare` receives the folder of the sources.
 */
export function buildLibrary({ name, directory, release, listOptions, prepare }) {
  const { folder, version } = debianSource({ name, directory, release });
  const options = listOptions(version);
  const [build, prefix] = ['build', 'prefix'].map((kind) => join(directory, `${name}-${kind}`));
  const done = join(prefix, 'done.json');
  if (!existsSync(done)) {
    prepare?.(folder);
    console.log(`building ${name} ${version} statically, once: minutes`);
    runStep('cmake', [
      ...['-S', folder, '-B', build, '-DCMAKE_BUILD_TYPE=Release', `-DCMAKE_INSTALL_PREFIX=${prefix}`],
      ...['-DCMAKE_POSITION_INDEPENDENT_CODE=ON', '-DCMAKE_INSTALL_LIBDIR=lib'],
      '-DCMAKE_CXX_VISIBILITY_PRESET=hidden',
      // the linker drops what is not called
      '-DCMAKE_CXX_FLAGS=-ffunction-sections -fdata-sections',
      ...options,
    ]);
    runStep('cmake', ['--build', build, '--parallel', String(availableParallelism())]);
    runStep('cmake', ['--install', build]);
    writeFileSync(done, JSON.stringify({ version, options }));
  }
  return { folder, prefix, version, options };
}
