#!/usr/bin/env node
/**
 * npm run dev -- test:wasm: compiles the kernels to WebAssembly, and runs the tests of tests.mjs with
 * them. Arguments go on to vitest.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { tests } from './tests.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));

function run(command, args, { cwd = root, environment = {} } = {}) {
  const env = { ...process.env, ...environment };
  return spawnSync(command, args, { cwd, stdio: 'inherit', env }).status ?? 1;
}

const args = process.argv.slice(2);
if (run(process.execPath, ['tooling/native/build-wasm.mjs']) !== 0) process.exit(1);
const failed = tests.filter(({ folder, files, names }) => {
  console.log(`WebAssembly: ${folder} ${files.join(' ')}${names === undefined ? '' : `, ${names}`}`);
  const chosen = names === undefined ? [] : ['-t', names];
  const vitest = join(root, 'tooling/node_modules/vitest/vitest.mjs');
  const environment = { MTL_KERNELS: 'wasm' };
  const cwd = join(root, folder);
  return run(process.execPath, [vitest, 'run', ...chosen, ...args, ...files], { cwd, environment }) !== 0;
});
for (const { folder, files } of failed) console.error(`failed: ${folder} ${files.join(' ')}`);
process.exit(failed.length === 0 ? 0 : 1);
