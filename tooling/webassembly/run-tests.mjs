#!/usr/bin/env node
/**
 * npm run dev -- test:wasm: compiles the kernels to WebAssembly, and runs the tests of tests.mjs with them.
 * With --node, runs them in that Node.js, a version or a path; several can be given. Other arguments are
 * passed to vitest.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { downloadPackages, unpackPackage } from '../release/in-system.mjs';
import { tests } from './tests.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));

function run(command, args, { cwd = root, environment = {} } = {}) {
  const env = { ...process.env, ...environment };
  return spawnSync(command, args, { cwd, stdio: 'inherit', env }).status ?? 1;
}

/**
 * Returns the path of the Node.js executable for a value of --node: a path, or a version, which is
 * downloaded.
 */
function findNode(value) {
  if (!/^\d+\.\d+\.\d+$/.test(value)) {
    if (existsSync(value)) return resolve(value);
    const remedy = 'a version such as 22.23.3, or the path of an executable';
    console.error(
      `error[MTL_FLAG_VALUE]: --node is ${value}, and there is no such file\n  remedy: ${remedy}`,
    );
    process.exit(2);
  }
  const downloads = join(root, '.cache', 'release', 'nodes');
  const folder = join(downloads, value);
  const node = join(folder, 'bin', 'node');
  if (!existsSync(node)) {
    const name = `node-${process.platform}-${process.arch}@${value}`;
    rmSync(folder, { recursive: true, force: true });
    unpackPackage(downloadPackages([name], downloads).get(name), folder);
  }
  return node;
}

const args = process.argv.slice(2);
const nodes = [];
for (let at = args.indexOf('--node'); at >= 0; at = args.indexOf('--node'))
  nodes.push(findNode(args.splice(at, 2)[1] ?? ''));
if (run(process.execPath, ['tooling/native/build-wasm.mjs']) !== 0) process.exit(1);
if (nodes.length === 0) nodes.push(process.execPath);
const runs = nodes.flatMap((node) => tests.map((test) => ({ ...test, node })));
const failed = runs.filter(({ node, folder, files, names, kernels = 'wasm' }) => {
  const version = spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim();
  const which = names === undefined ? '' : `, ${names}`;
  const what = `${kernels} in Node ${version}: ${folder} ${files.join(' ')}${which}`;
  if (kernels === 'wasm-relaxed' && Number.parseInt(version.slice(1), 10) < 22) {
    console.log(`left out, for lack of relaxed SIMD: ${what}`);
    return false;
  }
  console.log(what);
  const chosen = names === undefined ? [] : ['-t', names];
  const vitest = join(root, 'tooling/node_modules/vitest/vitest.mjs');
  const environment = { MTL_KERNELS: kernels };
  const cwd = join(root, folder);
  return run(node, [vitest, 'run', ...chosen, ...args, ...files], { cwd, environment }) !== 0;
});
for (const { node, folder, files, kernels = 'wasm' } of failed)
  console.error(`failed: ${kernels}, ${folder} ${files.join(' ')}, ${node}`);
process.exit(failed.length === 0 ? 0 : 1);
