#!/usr/bin/env node
/**
 * Makes a checkout ready: installs system libraries and packages, and builds. This program itself has no
 * dependencies. It skips everything that is already done, so a second call takes only a second or two.
 * node tooling/bootstrap/bootstrap.mjs [turbo task ...] (default: build build:native)
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { platformProblem } from '../native/platform-problem.mjs';
import { answerHelp } from './answer-help.mjs';
import { usePlatformAddons } from './platform-addons.mjs';

export const root = fileURLToPath(new URL('../..', import.meta.url));
const minimumNode = [20, 19];
const showProgress = fileURLToPath(new URL('./show-progress.mjs', import.meta.url));

/**
 * Returns the environment for all commands that the bootstrap starts: the tools in the checkout are first on
 * PATH, and telemetry is off.
 */
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

/** Runs a step. Shows the step's output only if the step fails, or if MTL_VERBOSE is set. */
function step(name, command, args, variables = {}) {
  const started = Date.now();
  const verbose = process.env.MTL_VERBOSE !== undefined;
  const result = spawnSync(command, args, {
    cwd: root,
    env: { ...toolEnvironment(), ...variables },
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    // descriptor 3 receives the progress that show-progress.mjs writes
    stdio: verbose ? 'inherit' : ['ignore', 'pipe', 'pipe', 1],
  });
  if (result.status !== 0) {
    console.error(`${result.stdout ?? ''}${result.stderr ?? ''}`.split('\n').slice(-80).join('\n'));
    fail(
      `${name} failed: ${command} ended with ${result.error?.message ?? result.status ?? result.signal}`,
      'the output above shows why; MTL_VERBOSE=1 shows every step',
    );
  }
  console.log(`${name}: ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

function checkPlatform() {
  const problem = platformProblem();
  if (problem !== undefined) fail(`${problem.message}; expected ${problem.expected}`, problem.remedy);
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

/** Functions that report which commands and libraries this machine has, and whether this user is root. */
const thisMachine = {
  hasCommand: (command) => succeeds(command, ['--version']),
  hasOneDnn,
  isRoot: () => process.getuid?.() === 0,
};

/**
 * Finds the missing Debian packages (compiler, CMake, oneDNN) and returns a plan: no action, an installation
 * by the bootstrap (as root on Debian or Ubuntu), or an error that names the command to run.
 */
export function planSystemPackages({ hasCommand, hasOneDnn, isRoot } = thisMachine) {
  const missing = [
    ...(hasCommand('c++') ? [] : ['g++']),
    ...(hasCommand('cmake') ? [] : ['cmake']),
    ...(hasOneDnn() ? [] : ['libdnnl-dev']),
  ];
  if (missing.length === 0) return { action: 'none', missing };
  if (isRoot() && hasCommand('apt-get')) return { action: 'install', missing };
  return {
    action: 'fail',
    missing,
    message: `missing: ${missing.join(', ')}`,
    remedy: `sudo apt-get install -y ${missing.join(' ')}`,
  };
}

function ensureSystemPackages() {
  const { action, missing, message, remedy } = planSystemPackages();
  if (action === 'none') return;
  if (action === 'fail') fail(message, remedy);
  step('package lists', 'apt-get', ['update', '-qq']);
  step(`installing ${missing.join(', ')}`, 'apt-get', ['install', '-y', '-qq', ...missing]);
}

/**
 * Finds the packages and apps in the checkout `root` whose node_modules folder is missing, for example after
 * `git clean` in a package. pnpm installs their dependencies again when it is called.
 */
export function foldersWithoutPackages(root) {
  return ['packages', 'apps']
    .flatMap((kind) => readdirSync(join(root, kind)).map((name) => join(root, kind, name)))
    .filter(
      (folder) => existsSync(join(folder, 'package.json')) && !existsSync(join(folder, 'node_modules')),
    );
}

/**
 * Installs the packages of the workspace, unless the packages in the lock file are already installed. Uses
 * the version of pnpm in package.json.
 */
export function ensurePackages() {
  checkNode();
  const lock = readFileSync(join(root, 'pnpm-lock.yaml'));
  const hash = createHash('sha256').update(lock).update(process.versions.modules).digest('hex');
  const stamp = join(root, 'node_modules', '.mtl-installed');
  const isInstalled = existsSync(stamp) && readFileSync(stamp, 'utf8') === hash;
  if (isInstalled && foldersWithoutPackages(root).length === 0) {
    linkCommands();
    return;
  }
  checkPlatform();
  const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  step('installing packages', 'npx', [
    '--yes',
    packageManager,
    'install',
    '--frozen-lockfile',
    '--prefer-offline',
  ]);
  linkCommands();
  writeFileSync(stamp, hash);
}

/** The commands that npx finds in the root folder, and the paths of their programs. */
const commandPaths = {
  mtl: 'packages/cli/bin/mtl.mjs',
  'gpt-train': 'packages/cli/bin/gpt-train.mjs',
  'bert-train': 'packages/cli/bin/bert-train.mjs',
  'mtl-link': 'tooling/link/link-packages.mjs',
};

/**
 * Links the commands, so that `npx mtl` and `npx gpt-train` work in the root folder. The root package could
 * depend on the commands' package instead, but then every package would seem to depend on it.
 */
function linkCommands() {
  for (const [command, path] of Object.entries(commandPaths)) {
    const link = join(root, 'node_modules', '.bin', command);
    rmSync(link, { force: true });
    symlinkSync(join('..', '..', path), link);
  }
}

/**
 * Installs dependencies, then runs turbo tasks in the checkout. If `declarations` is true, builds write type
 * declarations, which a first training run does not need. If `compiles` is true, native code is always
 * compiled; otherwise it is not compiled if the platform packages were compiled from the same native sources.
 * If `isForThisMachine` is true, the kernels are compiled only for the instruction set of this machine,
 * unless the build already contains further instruction sets.
 */
export function bootstrap(
  wanted = ['build', 'build:native'],
  filters = [],
  { declarations = false, compiles = false, isForThisMachine = false } = {},
) {
  checkNode();
  const isCompiled = !compiles && usePlatformAddons({ root });
  const needed = wanted.filter((task) => !isCompiled || task !== 'build:native');
  const tasks = needed.map((task) =>
    task === 'build' ? (declarations ? 'build:types' : 'build:packages') : task,
  );
  if (!isCompiled) ensureSystemPackages();
  ensurePackages();
  const isFirst = !existsSync(join(root, 'packages', 'kernels', 'build', 'Release', 'mtl_kernels.node'));
  if (isFirst && tasks.includes('build:native')) {
    const forWhat = isForThisMachine ? ' for this processor (npm run build:native: for all)' : '';
    console.log(`compiling the native kernels${forWhat}, once: a minute or more, by the number of cores`);
  }
  // all packages depend on @mtl/tooling, which has the tasks build:packages and build:types
  const selection = filters.map((filter) => `--filter=${filter}...`);
  const command = ['turbo', 'run', ...tasks, ...selection, '--output-logs=errors-only'];
  const [program, ...args] = tasks.includes('build:native')
    ? [process.execPath, showProgress, ...command]
    : command;
  step(needed.join(' and '), program, args, {
    ...(isForThisMachine ? { MTL_INSTRUCTION_SETS: 'machine' } : {}),
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  answerHelp(`usage: npm run bootstrap [-- TASK ...]

Makes the checkout ready: system libraries, packages, and the tasks of turbo.json [build build:native]. It does only
what is not done yet.`);
  const tasks = process.argv.slice(2);
  bootstrap(tasks.length > 0 ? tasks : undefined, [], { declarations: true });
}
