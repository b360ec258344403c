#!/usr/bin/env node
/**
 * npm test: prepares the checkout and runs lint, boundaries, types, and the tests of all packages, apps and
 * the tooling. At the end, it prints the communication engines that were used, why tests were skipped, the
 * tests that only --all runs, and a line with the counts. The help text below lists the flags.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { missingEngines } from '../checks/required-engines.mjs';
import { readSkipReasons, skipsByReason, textOfSkips } from '../checks/skip-reasons.mjs';
import { instructionSetNames } from '../native/instruction-sets.mjs';
import { numSuitesLeft } from '../vitest/slow-suites.mjs';
import { answerHelp } from './answer-help.mjs';
import { bootstrap, ensurePackages, root, toolEnvironment } from './bootstrap.mjs';
import { runChecks } from './checks.mjs';
import { machineDigest } from './test-machine.mjs';
import { testOutcomes } from './test-outcomes.mjs';

answerHelp(`usage: npm test [-- FLAGS]

Builds what is not built yet, and runs lint, boundaries, types and tests: some minutes. A package whose tests have passed
on the same sources, its own and those that it depends on, is not tested again. Without --all, it leaves out the slowest
suites, tests with the tag "whole", and the native tests under sanitizers.

  --all                    Runs all tests; .ci/whole does.
  --force                  Tests what has passed on the same sources, too.
  --ci                     Fails on a skipped test that .ci/allowed-skips does not list, and runs a few native tests
                           under sanitizers.
  --required-engines FILE  Fails when no test saw ranks communicate over an engine that the file lists.
  --checked                Leaves out lint and boundaries, which have just passed.

The tests of one package: npx vitest run, in its folder.`);
const { all: areAll, ci: isCi, force, checked, 'required-engines': engineFile } = readFlags();
const requiredEngines = engineFile === undefined ? undefined : readEngines(engineFile);
/** The path of the list of all skipped tests. */
const skipList = 'tooling/build/skipped-tests.txt';

function fail(message) {
  console.error(`error[MTL_FLAG_VALUE]: ${message}`);
  return process.exit(2);
}

function readFlags() {
  const flag = { type: 'boolean', default: false };
  const options = { all: flag, ci: flag, force: flag, checked: flag, 'required-engines': { type: 'string' } };
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    return fail(`${error.message.split('. ')[0]}; npm test -- --help lists the flags`);
  }
}

function readEngines(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : fail(`--required-engines ${file} names no file`);
}

const outcomes = testOutcomes(root);
outcomes.clear();
ensurePackages();
const haveChecksPassed = checked || runChecks(['lint', 'boundaries']);
// the checks of guides and examples need the builds
bootstrap(['build', 'build:native'], [], { declarations: true, compiles: true });
const env = {
  ...toolEnvironment(),
  MTL_TEST_MACHINE: machineDigest(),
  MTL_TEST_BUILDS: '1',
  MTL_TEST_SUITES: areAll ? 'all' : 'fast',
};
const turbo = (...args) =>
  spawnSync('turbo', ['run', '--continue', '--output-logs=new-only', ...args], {
    cwd: root,
    env,
    stdio: 'inherit',
  }).status ?? 1;
const nativeTests = areAll ? ['test:native'] : isCi ? ['test:native:few'] : [];
const statuses = {
  'lint and boundaries': haveChecksPassed ? 0 : 1,
  // the type check runs at the same time as native tests, which spend most of their time waiting
  ...(nativeTests.length > 0
    ? { 'types and native tests': turbo('//#typecheck', ...nativeTests, '--concurrency=3') }
    : { types: turbo('//#typecheck') }),
  // two packages are tested at a time; each package's configuration sets how many of its test files run at
  // once
  'tests of packages, apps and tooling': turbo('test', '--concurrency=2', ...(force ? ['--force'] : [])),
};

const { numPassed, failed, skipped, left, engines, instructionSets } = outcomes.read();
const used = Object.values(engines).flat();
const numByEngine = [...new Set(used)]
  .sort()
  .map((name) => `${name} (${used.filter((engine) => engine === name).length} ranks)`);
const skips = skipsByReason(skipped, readSkipReasons(readFileSync(join(root, '.ci/allowed-skips'), 'utf8')));
mkdirSync(join(root, 'tooling/build'), { recursive: true });
writeFileSync(join(root, skipList), `${skipped.join('\n')}\n`);
console.log(`\nengines used: ${numByEngine.join(', ') || 'none'}`);
const [haveRun, neverRan] = [true, false].map(
  (isWanted) =>
    instructionSetNames()
      .filter((name) => instructionSets.includes(name) === isWanted)
      .join(', ') || 'none',
);
console.log(
  `CPU kernels that ran on ${cpus()[0]?.model ?? 'this processor'}: ${haveRun}; that never did: ${neverRan}`,
);
console.log(`\n${textOfSkips(skips, skipList)}`);
const disallowed = isCi ? skips.others : [];
const missing = requiredEngines === undefined ? [] : missingEngines(engines, requiredEngines);
for (const line of missing) console.error(`error[MTL_ENGINE_UNSEEN]: no test has seen the engine: ${line}`);
for (const name of disallowed) console.error(`error[MTL_SKIPPED]: not allowed to be skipped here: ${name}`);
const steps = Object.keys(statuses).filter((step) => statuses[step] !== 0);
if (failed.length > 0) console.log('\nfailed:');
for (const line of failed) console.log(`  ${line}`);
if (steps.length > 0) console.log(`\nended with an error: ${steps.join(', ')}`);
if (!areAll) {
  console.log(
    `\nleft to npm test -- --all: ${numSuitesLeft()} suites, ${left.length} tests, the native tests under sanitizers`,
  );
}
console.log(`\n${numPassed} passed, ${failed.length} failed, ${skipped.length} skipped`);
const isGreen = steps.length + disallowed.length + missing.length + failed.length === 0 && numPassed > 0;
process.exit(isGreen ? 0 : 1);
