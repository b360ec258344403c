#!/usr/bin/env node
/**
 * npm run dev -- test:bare: installs @mtl/cli from tarballs in roots that have only Node.js, and trains the
 * default run there, with kernels as WebAssembly or, on arm64, with native kernels.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { answerHelp } from '../bootstrap/answer-help.mjs';
import {
  root as checkout,
  packLocalBuilds,
  packPackages,
  packPlatformPackages,
  packWebAssembly,
} from '../packaging/packed-packages.mjs';
import { installDebianPackages } from '../processes/install-debian-packages.mjs';
import { readMetrics } from '../processes/read-metrics.mjs';
import { otherPackages } from '../release/bare-machine.mjs';
import { registryAddress, runInSystem } from '../release/in-system.mjs';
import { canIsolate, listNeeds, makeRoot, roots } from './roots.mjs';

/** Prints the problem and ends the program. */
function refuse(message, remedy) {
  console.error(`error[MTL_BARE_ROOTS]: ${message}\n  remedy: ${remedy}`);
  process.exit(2);
}

answerHelp(`usage: npm run dev -- test:bare [--only ROOT] [--steps N]

Packs all packages, installs @mtl/cli with the machine's npm in roots that have Node.js alone and no network, and trains the
first steps of the default run. Losses are compared with the golden ones, and the losses of all roots with WebAssembly bit
for bit. On arm64, two ranks train too, with the platform packages that build:platform --cpu arm64 has made.
Needs root, unshare and ip, and what the roots are made from, which is installed on Debian 12.

  --only ROOT  ${Object.entries(roots)
    .map(([name, { about }]) => `${name}: ${about}`)
    .join('\n               ')}
  --steps N    [2]`);

const { values: given } = parseArgs({ options: { only: { type: 'string' }, steps: { type: 'string' } } });
if (given.only !== undefined && !Object.hasOwn(roots, given.only))
  refuse(`there is no root ${given.only}`, `one of ${Object.keys(roots).join(', ')}`);
const numSteps = Number(given.steps ?? 2);
const { lmLosses } = JSON.parse(
  readFileSync(join(checkout, 'apps/gpt-train/fixtures/golden-losses.json'), 'utf8'),
);
if (!(Number.isInteger(numSteps) && numSteps >= 1 && numSteps <= lmLosses.length))
  refuse(`--steps is ${given.steps}`, `a number from 1 to ${lmLosses.length}, the number of golden losses`);
const names = given.only === undefined ? Object.keys(roots) : [given.only];
const chosen = names.map((name) => roots[name]);

prepareMachine();
const cache = join(checkout, '.cache', 'release');
const directory = mkdtempSync(join(tmpdir(), 'mtl-bare-roots-'));
try {
  const folders = packEverything();
  const losses = new Map(names.map((name) => [name, trainIn(name, folders)]));
  const [first, ...others] = names.filter((name) => !roots[name].isNative);
  const differing = others.filter((name) => `${losses.get(name)}` !== `${losses.get(first)}`);
  if (differing.length > 0) throw new Error(`other losses than in ${first}: ${differing.join(', ')}`);
  console.log(`${names.length} passed, 0 failed: losses ${losses.get(names[0]).join(', ')}`);
} catch (error) {
  console.error(`error[MTL_BARE_ROOTS]: ${error.message}`);
  process.exitCode = 1;
} finally {
  rmSync(directory, { recursive: true, force: true });
}

/**
 * Installs the missing Debian packages from which the roots are made. If this fails, prints their names and
 * ends the program.
 */
function prepareMachine() {
  const missing = installDebianPackages(listNeeds(chosen));
  if (missing.length > 0)
    refuse(`roots cannot be made without ${missing.join(', ')}`, `sudo apt-get install ${missing.join(' ')}`);
  if (!canIsolate())
    refuse('unshare cannot start a process in a file system and a network of its own', 'run this as root');
}

/**
 * Packs this checkout, and downloads the packages on which it depends. Returns folders with tarballs:
 * portable packages, platform packages, third-party packages.
 */
function packEverything() {
  const packed = join(directory, 'packed');
  const portable = new Map([...packPackages(packed, { hasTypes: false }), ...packWebAssembly(packed)]);
  const platforms = new Map([
    ...packLocalBuilds(join(directory, 'platforms')),
    ...(chosen.some(({ isNative }) => isNative)
      ? packPlatformPackages(join(directory, 'platforms'), 'arm64')
      : []),
  ]);
  const others = join(cache, 'other-packages');
  mkdirSync(others, { recursive: true });
  otherPackages({ tarballs: [...portable.values(), ...platforms.values()], folder: others });
  return { portable: packed, platforms: join(directory, 'platforms'), others };
}

/** Installs @mtl/cli in the root `name`, trains there, and returns the losses. */
function trainIn(name, { portable, platforms, others }) {
  const root = roots[name];
  const system = join(directory, name);
  makeRoot({ root, system, downloads: join(cache, 'nodes') });
  mkdirSync(join(system, 'project'));
  const folders = [portable, ...(root.hasPlatformPackages ? [platforms] : []), others];
  const node = (...words) => {
    const started = Date.now();
    const { status, output } = runInSystem({
      system,
      folders,
      command: [...root.start, ...words],
      env: { HOME: '/project', npm_config_registry: registryAddress },
      timeoutMs: 1_800_000,
    });
    if (status !== 0) throw new Error(`${name}: node ${words.join(' ')} ended with ${status}\n${output}`);
    return { output, seconds: ((Date.now() - started) / 1000).toFixed(1) };
  };
  const version = node('-p', 'process.version + " for " + process.arch').output.trim();
  const flags = ['--prefix', '/project', '--ignore-scripts', '--no-audit', '--no-fund'];
  const installed = node('/opt/npm/bin/npm-cli.js', 'install', ...flags, '@mtl/cli');
  const scope = join(system, 'project/node_modules/@mtl');
  const native = readdirSync(scope).filter((each) => /^(kernels|comm)-linux-/.test(each));
  if (native.length > 0 !== (root.isNative === true))
    throw new Error(`${name}: npm installed the platform packages: ${native.join(', ') || 'none'}`);
  const mtl = '/project/node_modules/@mtl/cli/bin/mtl.mjs';
  const steps = ['--exit-interval', `${numSteps}`, '--eval-iters', '0', '--log-interval', '1'];
  /** Trains with words before and after the flags of all runs, and returns the losses. */
  const train = (run, before, after) => {
    const metrics = `/project/${run}.jsonl`;
    const saves = ['--save', `/project/${run}`, '--metrics-jsonl', metrics];
    const trained = node(mtl, ...before, ...steps, ...saves, ...after);
    if (trained.output.includes('the kernels are WebAssembly') === (root.isNative === true))
      throw new Error(`${name}: the run does not say what its kernels are\n${trained.output}`);
    const losses = readMetrics(join(system, metrics)).map(({ lm_loss }) => lm_loss);
    // The bound is that of the golden losses in apps/gpt-train, because other instruction sets and thread
    // counts sum in another order.
    const wrong = losses.findIndex((loss, step) => !(Math.abs(loss - lmLosses[step]) < 2e-5));
    if (losses.length !== numSteps || wrong >= 0)
      throw new Error(
        `${name}: losses ${losses.join(', ')}, expected ${lmLosses.slice(0, numSteps).join(', ')}`,
      );
    return { losses, seconds: trained.seconds };
  };
  // by default, every rank adds samples to the global batch
  const sameBatch = ['--micro-batch-size', '4', '--global-batch-size', '8'];
  const { losses, seconds } = train('run', ['train', 'gpt'], ['--threads', '2']);
  const ranks = root.isNative
    ? train('ranks', ['run', '--nproc-per-node', '2', 'gpt', '--'], ['--threads', '1', ...sameBatch])
    : undefined;
  const onRanks = ranks === undefined ? '' : `, on two ranks in ${ranks.seconds} s`;
  console.log(
    `${name} (${root.about}): Node ${version}; installed in ${installed.seconds} s, ${numSteps} steps in ${seconds} s${onRanks}`,
  );
  rmSync(system, { recursive: true, force: true });
  return losses;
}
