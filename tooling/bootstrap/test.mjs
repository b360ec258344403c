#!/usr/bin/env node
/**
 * npm test: makes the checkout ready and runs everything the machine can run: types, the tests of all packages and
 * apps, and of the tooling itself. Ends with the engines that ranks communicated over, what was skipped and why, and one
 * line of counts.
 *   npm test -- --allowed-skips FILE      fails on a skip that the file does not allow
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { disallowedSkips } from '../checks/allowed-skips.mjs';
import { bootstrap, root, toolEnvironment } from './bootstrap.mjs';

const folders = ['packages', 'apps'].flatMap((group) =>
  readdirSync(join(root, group)).map((name) => join(root, group, name)),
);
const reports = [...folders, join(root, 'tooling')].map((folder) =>
  join(folder, 'build', 'test-results.json'),
);
const engineFiles = folders.map((folder) => join(folder, 'build', 'engines-used.txt'));
for (const file of [...reports, ...engineFiles]) rmSync(file, { force: true });

bootstrap(['build', 'build:native']);
const run = (args) =>
  spawnSync('turbo', args, { cwd: root, env: toolEnvironment(), stdio: 'inherit' }).status ?? 1;
const status = [
  run(['run', 'typecheck', '--output-logs=errors-only']),
  // one after the other: kernels use all cores, and timings under load say nothing
  run(['run', 'test', 'test:native', '--concurrency=1', '--continue', '--output-logs=new-only']),
];

const counts = { passed: 0, failed: 0, skipped: 0 };
const skipped = [];
for (const report of reports.filter((path) => existsSync(path))) {
  for (const file of JSON.parse(readFileSync(report, 'utf8')).testResults) {
    if (file.assertionResults.length === 0 && file.status === 'failed') counts.failed += 1;
    for (const { status: result, fullName } of file.assertionResults) {
      if (result === 'passed') counts.passed += 1;
      else if (result === 'failed') counts.failed += 1;
      else {
        counts.skipped += 1;
        skipped.push(`${file.name.slice(root.length)}: ${fullName}`);
      }
    }
  }
}
const engines = engineFiles
  .filter((path) => existsSync(path))
  .flatMap((path) => readFileSync(path, 'utf8').trim().split('\n'));
const numByEngine = [...new Set(engines)]
  .sort()
  .map((name) => `${name} (${engines.filter((engine) => engine === name).length} ranks)`);
console.log(`\nengines used: ${numByEngine.join(', ') || 'none'}`);
console.log(skipped.length === 0 ? '\nnothing was skipped' : `\nskipped (the name of a test says why):`);
for (const name of skipped) console.log(`  ${name}`);
const listAt = process.argv.indexOf('--allowed-skips');
const disallowed = listAt < 0 ? [] : disallowedSkips(skipped, readFileSync(process.argv[listAt + 1], 'utf8'));
for (const name of disallowed) console.error(`error[MTL_SKIPPED]: not allowed to be skipped here: ${name}`);
console.log(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
const failed =
  status.some((code) => code !== 0) || disallowed.length > 0 || counts.failed > 0 || counts.passed === 0;
process.exit(failed ? 1 : 0);
