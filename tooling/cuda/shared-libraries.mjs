import { spawnSync } from 'node:child_process';
import { basename } from 'node:path';

// Matches libraries that every system has. A bundle only requires minimum versions of these libraries.
const ofTheSystem = /^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|util|resolv)\.so)/;
/**
 * Matches the names of the compiler's libraries. If the machine's versions are recent enough, they are used,
 * because other libraries on the machine may need them.
 */
const ofTheCompiler = /^lib(stdc\+\+|gcc_s)\.so/;

function run(command, args) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr}`);
  return stdout;
}

/**
 * Returns the shared libraries that programs and addons need, directly or indirectly, except the C library. A
 * library has a name, a file, and a flag that is true for the compiler's libraries. A machine may have newer
 * versions of the compiler's libraries.
 * @throws Error if a library is missing on this machine
 */
export function neededLibraries(files) {
  const found = new Map();
  for (const line of files.flatMap((file) => run('ldd', [file]).split('\n'))) {
    const [, soname, path] = /^\s*(\S+) => (\S+)/.exec(line) ?? [];
    if (soname === undefined || ofTheSystem.test(soname)) continue;
    if (path === 'not') throw new Error(`${soname} is not on this machine`);
    found.set(soname, { soname, path, isCompatibility: ofTheCompiler.test(basename(soname)) });
  }
  return [...found.values()];
}

const isNewer = (a, b) => a.localeCompare(b, 'en', { numeric: true }) > 0;

/**
 * Returns the newest symbol versions of the C and C++ libraries that `files` need: { GLIBC: '2.34', GLIBCXX:
 * '3.4.30', ... }.
 */
export function requiredVersions(files) {
  const newest = {};
  for (const file of files) {
    for (const [, library, version] of run('objdump', ['-T', file]).matchAll(
      /\*UND\*.*\((GLIBC|GLIBCXX|CXXABI|GOMP|GCC)_([\d.]+)\)/g,
    )) {
      if (newest[library] === undefined || isNewer(version, newest[library])) newest[library] = version;
    }
  }
  return newest;
}
