#!/usr/bin/env node
/**
 * Runs the checks that need no build and take seconds. Installs the packages first if they are missing.
 * npm run lint: formatting, lint, house rules
 * npm run dev -- boundaries: which package imports which
 * npm run typecheck: all sources and tests of all packages, as one program
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { answerHelp } from './answer-help.mjs';
import { ensurePackages, root, toolEnvironment } from './bootstrap.mjs';

const commands = {
  lint: [
    ['biome', 'check', '.'],
    [process.execPath, 'tooling/checks/check-repository.mjs'],
  ],
  boundaries: [[process.execPath, 'tooling/checks/boundaries.mjs']],
  // all packages are one program, because separate programs would check the sources of lower packages
  // repeatedly; the dashboard's page is a second program, because it runs in browsers
  typecheck: [
    ['tsc', '-p', '.', '--incremental', '--tsBuildInfoFile', 'tooling/build/types.tsbuildinfo'],
    ['tsc', '-p', 'packages/dashboard/page'],
  ],
};

/**
 * Returns `names`, the checks on the command line. Ends the program with status 2 if a name is unknown or no
 * name is given.
 */
function checkedNames(names) {
  const unknown = names.filter((name) => !Object.hasOwn(commands, name));
  if (names.length > 0 && unknown.length === 0) return names;
  const what = names.length === 0 ? 'no check is named' : `there is no check ${unknown.join(', ')}`;
  console.error(
    `error[MTL_FLAG_VALUE]: ${what}; expected one or more of ${Object.keys(commands).join(', ')}`,
  );
  return process.exit(2);
}

/**
 * Runs the given checks, continuing after a failure, and returns true if all passed. The checks print to the
 * output of this process.
 */
export function runChecks(names) {
  const results = names
    .flatMap((name) => commands[name])
    .map(([command, ...args]) => {
      const how = { cwd: root, env: toolEnvironment(), stdio: 'inherit' };
      const { status, error } = spawnSync(command, args, how);
      if (error !== undefined) throw error;
      return status === 0;
    });
  return results.every((passed) => passed);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  answerHelp(`usage: npm run lint | npm run typecheck | npm run dev -- boundaries

The checks that need no build: formatting, lint and house rules; which package imports which; the types of all sources.`);
  const names = checkedNames(process.argv.slice(2));
  ensurePackages();
  process.exit(runChecks(names) ? 0 : 1);
}
