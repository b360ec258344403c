#!/usr/bin/env node
/**
 * The command mtl-kernels-build. It compiles the native addon of an installed package on a machine for which
 * there is no platform package.
 *   npx mtl-kernels-build [--build-dir DIRECTORY] [--target NAME] [-DNAME=VALUE ...]
 */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildNative } from '@mtl/tooling/native';

const args = process.argv.slice(2);
const at = args.indexOf('--build-dir');
// a relative folder is relative to the caller's working directory, not to this package
if (at >= 0 && args[at + 1] !== undefined) args[at + 1] = resolve(args[at + 1]);
const directory = fileURLToPath(new URL('..', import.meta.url));
await buildNative({ directory, args, command: 'mtl-kernels-build' });
