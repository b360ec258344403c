#!/usr/bin/env node
/**
 * npm test: makes the checkout ready and runs lint, boundaries, types and the tests of all packages and apps,
 * and of the tooling itself. Ends with the engines that ranks communicated over, what was skipped and why,
 * what is left to --all, and one line of counts.
 *   npm test -- --all                    runs the slow suites too, and the native tests under sanitizers
 *   npm test -- --allowed-skips FILE      fails on a skip that the file does not allow
 *            -- --required-engines FILE   fails when tests did not see ranks communicate over an engine of the file
 *            -- --checked                 leaves out lint and boundaries, which .ci/run has just run
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { disallowedSkips } from '../checks/allowed-skips.mjs';
import { grouped } from '../checks/grouped.mjs';
import { missingEngines } from '../checks/required-engines.mjs';
import { textOfSuitesLeft } from '../vitest/slow-suites.mjs';
import { answerHelp } from './answer-help.mjs';
import { bootstrap, ensurePackages, root, toolEnvironment } from './bootstrap.mjs';
import { runChecks } from './checks.mjs';

answerHelp(`usage: npm test [-- FLAGS]

Builds what is not built yet, and runs lint, boundaries, types and tests. Without --all, it leaves out the
slowest suites, and the native tests under sanitizers, and prints their names.

  --all                    Runs all tests; CI does.
  --allowed-skips FILE     Fails on a skipped test that the file does not list.
  --required-engines FILE  Fails when no test saw ranks communicate over an engine that the file lists.
  --checked                Leaves out lint and boundaries, which have just passed.

The tests of one package: npx vitest run, in its folder.`);
const folders = ['packages', 'apps'].flatMap((group) =>
  readdirSync(join(root, group)).map((name) => join(root, group, name)),
);
const reports = [...folders, join(root, 'tooling')].map((folder) =>
  join(folder, 'build', 'test-results.json'),
);
/** What tests and native test programs noted next to the reports. */
const notes = (name) => folders.map((folder) => ({ folder, file: join(folder, 'build', name) }));
const [engineNotes, skipNotes, failNotes] = ['engines-used.txt', 'skipped.txt', 'failed.txt'].map(notes);
const noteFiles = [...engineNotes, ...skipNotes, ...failNotes].map(({ file }) => file);
const linesOf = (file) => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []);
const flag = (name) => {
  const at = process.argv.indexOf(name);
  if (at < 0) return undefined;
  const file = process.argv[at + 1];
  if (file !== undefined && existsSync(file)) return readFileSync(file, 'utf8');
  console.error(`error[MTL_FLAG_VALUE]: ${[name, file].join(' ').trim()} names no file`);
  return process.exit(2);
};
const [allowedSkips, requiredEngines] = [flag('--allowed-skips'), flag('--required-engines')];
for (const file of [...reports, ...noteFiles]) rmSync(file, { force: true });

ensurePackages();
const haveChecksPassed = process.argv.includes('--checked') || runChecks(['lint', 'boundaries']);
const areAll = process.argv.includes('--all');
bootstrap(['build', 'build:native'], [], { declarations: areAll, compiles: true }); // packed packages are tested with theirs
const env = {
  ...toolEnvironment(),
  MTL_TEST_BUILDS: '1',
  MTL_TEST_SUITES: areAll ? 'all' : 'fast',
};
const turbo = (...args) =>
  spawnSync('turbo', ['run', '--continue', '--output-logs=new-only', ...args], {
    cwd: root,
    env,
    stdio: 'inherit',
  }).status ?? 1;
const statuses = {
  'lint and boundaries': haveChecksPassed ? 0 : 1,
  ...(areAll
    ? // compilers, and tests that wait: side by side
      { 'types and native tests': turbo('//#typecheck', 'test:native', '--concurrency=3') }
    : { types: turbo('//#typecheck') }),
  // one package after the other, which says itself how many of its files run at once; on the builds just made
  'tests of packages, apps and tooling': turbo('test', '--concurrency=1'),
};

let numPassed = 0;
const [skipped, failed] = [[], []];
for (const report of reports.filter((path) => existsSync(path))) {
  for (const file of JSON.parse(readFileSync(report, 'utf8')).testResults) {
    const name = file.name.slice(root.length);
    if (file.assertionResults.length === 0 && file.status === 'failed') failed.push(name);
    for (const { status, fullName } of file.assertionResults) {
      if (status === 'passed') numPassed += 1;
      else (status === 'failed' ? failed : skipped).push(`${name}: ${fullName}`);
    }
  }
}
for (const [outcomes, outcomeNotes] of [
  [skipped, skipNotes],
  [failed, failNotes],
]) {
  for (const { folder, file } of outcomeNotes) {
    const lines = linesOf(file).map((line) => `${relative(root, folder)}: ${line}`);
    // a program that runs under several sanitizers skips in each
    outcomes.push(...new Set(lines));
  }
}
const used = Object.fromEntries(
  engineNotes.map(({ folder, file }) => [relative(root, folder), linesOf(file)]),
);
const engines = Object.values(used).flat();
const numByEngine = [...new Set(engines)]
  .sort()
  .map((name) => `${name} (${engines.filter((engine) => engine === name).length} ranks)`);
console.log(`\nengines used: ${numByEngine.join(', ') || 'none'}`);
console.log(skipped.length === 0 ? '\nnothing was skipped' : `\nskipped (the name of a test says why):`);
for (const line of grouped(skipped)) console.log(`  ${line}`);
const disallowed = allowedSkips === undefined ? [] : disallowedSkips(skipped, allowedSkips);
const missing = requiredEngines === undefined ? [] : missingEngines(used, requiredEngines);
for (const line of missing) console.error(`error[MTL_ENGINE_UNSEEN]: no test has seen the engine: ${line}`);
for (const name of disallowed) console.error(`error[MTL_SKIPPED]: not allowed to be skipped here: ${name}`);
const steps = Object.keys(statuses).filter((step) => statuses[step] !== 0);
if (failed.length > 0) console.log('\nfailed:');
for (const line of failed) console.log(`  ${line}`);
if (steps.length > 0) console.log(`\nended with an error: ${steps.join(', ')}`);
if (!areAll) console.log(`\n${textOfSuitesLeft()}`);
console.log(`\n${numPassed} passed, ${failed.length} failed, ${skipped.length} skipped`);
const isGreen = steps.length + disallowed.length + missing.length + failed.length === 0 && numPassed > 0;
process.exit(isGreen ? 0 : 1);
