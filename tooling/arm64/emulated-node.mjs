import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { roots } from '../bare-roots/roots.mjs';
import { downloadPackages, unpackPackage } from '../release/in-system.mjs';

const folder = fileURLToPath(new URL('../build/arm64/', import.meta.url));
const preload = fileURLToPath(new URL('run-as-emulated-node.mjs', import.meta.url));
/** The folder of Debian's libraries for arm64, in which qemu looks for the program loader. */
const libraries = '/usr/aarch64-linux-gnu';

/** The words that start a program for arm64, such as a native test. */
export const emulator = ['qemu-aarch64', '-L', libraries];

/** The flags with which Node.js of this machine starts emulated children. */
export const startsEmulatedChildren = ['--import', preload];

/** The Debian packages for compiling and running programs for arm64, and a file of each. */
export const needs = {
  'g++-aarch64-linux-gnu': '/usr/bin/aarch64-linux-gnu-g++',
  'qemu-user': '/usr/bin/qemu-aarch64',
  'libc6-arm64-cross': `${libraries}/lib/ld-linux-aarch64.so.1`,
  'libstdc++6-arm64-cross': `${libraries}/lib/libstdc++.so.6`,
};

/**
 * Returns the path of a command that behaves like Node.js on arm64. It starts the Node.js of the npm package
 * under qemu, which is downloaded into `downloads`. Programs that it starts are emulated, too.
 */
export function prepareEmulatedNode(downloads) {
  const { node: name } = roots.arm64;
  const node = join(downloads, name, 'bin', 'node');
  if (!existsSync(node)) {
    unpackPackage(downloadPackages([name], downloads).get(name), dirname(dirname(node)));
  }
  mkdirSync(folder, { recursive: true });
  const command = join(folder, 'node');
  const words = [...emulator, node, '--import', preload].map((word) => `'${word}'`);
  writeFileSync(command, `#!/bin/sh\nexec ${words.join(' ')} "$@"\n`);
  chmodSync(command, 0o755);
  return command;
}
