#!/usr/bin/env node
/**
 * mtl-comm-build compiles the native addon of an installed package, for platforms without a prebuilt package.
 * Usage: npx mtl-comm-build [--build-dir DIRECTORY] [--target NAME] [-DNAME=VALUE ...]
 */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildNative } from '@mtl/tooling/native';

const args = process.argv.slice(2);
const at = args.indexOf('--build-dir');
// a relative folder is relative to the caller's working directory, not to this package
if (at >= 0 && args[at + 1] !== undefined) args[at + 1] = resolve(args[at + 1]);
const directory = fileURLToPath(new URL('..', import.meta.url));
await buildNative({ directory, args, command: 'mtl-comm-build' });
