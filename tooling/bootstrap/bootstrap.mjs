#!/usr/bin/env node
/**
 * Makes a checkout ready without having any dependency itself: system libraries, packages, builds. Does only what is
 * not done yet, so that calling it again costs a second or two.
 *   node tooling/bootstrap/bootstrap.mjs [turbo task ...]       default: build build:native
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
const minimumNode = [20, 19];

/** The environment of everything started here: the checkout's own tools first, nobody is phoned. */
export function toolEnvironment() {
  return {
    ...process.env,
    PATH: `${join(root, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`,
    TURBO_TELEMETRY_DISABLED: '1',
    DO_NOT_TRACK: '1',
    npm_config_loglevel: 'error',
  };
}

function fail(message, remedy) {
  console.error(`error[MTL_BOOTSTRAP]: ${message}\n  remedy: ${remedy}`);
  process.exit(2);
}

function succeeds(command, args) {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

/** Runs a step; its output is shown only when it fails (or always, with MTL_VERBOSE). */
function step(name, command, args) {
  const started = Date.now();
  const verbose = process.env.MTL_VERBOSE !== undefined;
  const result = spawnSync(command, args, {
    cwd: root,
    env: toolEnvironment(),
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    stdio: verbose ? 'inherit' : ['ignore', 'pipe', 'pipe'],
  });
  if (result.status !== 0) {
    console.error(`${result.stdout ?? ''}${result.stderr ?? ''}`.split('\n').slice(-80).join('\n'));
    fail(
      `${name} failed: ${command} ended with ${result.error?.message ?? result.status ?? result.signal}`,
      'the output above says why; MTL_VERBOSE=1 shows every step',
    );
  }
  console.log(`${name}: ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > minimumNode[0] || (major === minimumNode[0] && minor >= minimumNode[1])) return;
  fail(`Node ${process.versions.node} is too old`, `install Node ${minimumNode.join('.')} or newer`);
}

function hasOneDnn() {
  return ['/usr/include', '/usr/local/include', ...(process.env.CPATH ?? '').split(delimiter)].some(
    (directory) => existsSync(join(directory, 'oneapi', 'dnnl', 'dnnl.h')),
  );
}

/** Compiler, CMake and oneDNN: installed where we are root on Debian or Ubuntu, named to everybody else. */
function ensureSystemPackages() {
  const missing = [
    ...(succeeds('c++', ['--version']) ? [] : ['g++']),
    ...(succeeds('cmake', ['--version']) ? [] : ['cmake']),
    ...(hasOneDnn() ? [] : ['libdnnl-dev']),
  ];
  if (missing.length === 0) return;
  const isRoot = process.getuid?.() === 0;
  if (!isRoot || !succeeds('apt-get', ['--version'])) {
    fail(`missing: ${missing.join(', ')}`, `sudo apt-get install -y ${missing.join(' ')}`);
  }
  step('package lists', 'apt-get', ['update', '-qq']);
  step(`installing ${missing.join(', ')}`, 'apt-get', ['install', '-y', '-qq', ...missing]);
}

/** Installs the workspace with the pnpm that package.json names, unless the lock file is installed already. */
function ensurePackages() {
  const lock = readFileSync(join(root, 'pnpm-lock.yaml'));
  const hash = createHash('sha256').update(lock).update(process.versions.modules).digest('hex');
  const stamp = join(root, 'node_modules', '.mtl-installed');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return;
  const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  step('installing packages', 'npx', [
    '--yes',
    packageManager,
    'install',
    '--frozen-lockfile',
    '--prefer-offline',
  ]);
  // npx mtl from the root. A dependency of the root would do it too, but then every package would seem to depend on it.
  const link = join(root, 'node_modules', '.bin', 'mtl');
  rmSync(link, { force: true });
  symlinkSync(join('..', '..', 'packages', 'cli', 'bin', 'mtl.mjs'), link);
  writeFileSync(stamp, hash);
}

/** Brings the checkout to where the turbo tasks have run. */
export function bootstrap(tasks = ['build', 'build:native'], filters = []) {
  checkNode();
  ensureSystemPackages();
  ensurePackages();
  const selection = filters.map((filter) => `--filter=${filter}...`);
  step(tasks.join(' and '), 'turbo', ['run', ...tasks, ...selection, '--output-logs=errors-only']);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const tasks = process.argv.slice(2);
  bootstrap(tasks.length > 0 ? tasks : undefined);
}
