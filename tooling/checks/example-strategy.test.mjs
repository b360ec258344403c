import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { root } from '../bootstrap/bootstrap.mjs';

/**
 * An example that shows how much code a new strategy needs. It consists of two patches: a second axis along
 * which processes share the features of a network, and an option for this axis. The test applies both patches
 * to a copy of the packages and runs the tests that they add.
 */

const locatePatch = (name) => fileURLToPath(new URL(`./example-strategy/${name}.patch`, import.meta.url));

function run(command, args, options = {}) {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8', ...options });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${status}:\n${stdout}${stderr}`);
  return stdout;
}

/** Returns the existing files that a patch changes, without test files. */
function changedFiles(name) {
  const args = ['apply', '--numstat', '--summary', locatePatch(name)];
  const lines = run('git', args, { cwd: root }).trim().split('\n');
  const created = lines.flatMap((line) => line.match(/^ create mode \d+ (.*)$/)?.[1] ?? []);
  const all = lines.flatMap((line) => line.match(/^\d+\t\d+\t(.*)$/)?.[1] ?? []);
  return all.filter((path) => !created.includes(path) && !path.includes('/test/'));
}

/** Copies the packages with their dependencies and native libraries, but without further build outputs. */
function copyPackages(to) {
  const listed = ['ls-files', '--cached', '--others', '--exclude-standard', 'packages'];
  const files = run('git', listed, { cwd: root, maxBuffer: 2 ** 26 })
    .trim()
    .split('\n');
  for (const file of files) {
    // skips files that are deleted but still known to git, and large files that the example's tests do not
    // read
    if (!existsSync(join(root, file)) || /^packages\/[^/]+\/(native|fixtures)\//.test(file)) continue;
    mkdirSync(dirname(join(to, file)), { recursive: true });
    cpSync(join(root, file), join(to, file));
  }
  for (const name of new Set(files.map((file) => file.split('/')[1]))) {
    const [from, copy] = [root, to].map((folder) => join(folder, 'packages', name));
    const modules = join(from, 'node_modules');
    // links between packages must lead to the copied packages
    if (existsSync(modules))
      cpSync(modules, join(copy, 'node_modules'), { recursive: true, verbatimSymlinks: true });
    const built = join(from, 'build', 'Release');
    if (!existsSync(built)) continue;
    mkdirSync(join(copy, 'build'), { recursive: true });
    symlinkSync(built, join(copy, 'build', 'Release'));
  }
  for (const shared of [
    'node_modules',
    'tooling',
    'package.json',
    'tsconfig.json',
    'pnpm-workspace.yaml',
    'platforms',
  ])
    symlinkSync(join(root, shared), join(to, shared));
}

describe('what a strategy costs, by an example', () => {
  let copy;
  beforeAll(() => {
    copy = mkdtempSync(join(root, 'tooling', 'build', 'example-strategy-'));
    copyPackages(copy);
    // git must not find the repository above the copy
    const env = { ...process.env, GIT_CEILING_DIRECTORIES: dirname(copy) };
    for (const name of ['strategy', 'option']) run('git', ['apply', locatePatch(name)], { cwd: copy, env });
  }, 60_000);
  afterAll(() => rmSync(copy, { recursive: true, force: true }));

  it('changes at most 10 files that are there, an option at most 4', () => {
    const [ofStrategy, ofOption] = [changedFiles('strategy'), changedFiles('option')];
    expect(ofStrategy.length, ofStrategy.join('\n')).toBeLessThanOrEqual(10);
    expect(ofOption.length, ofOption.join('\n')).toBeLessThanOrEqual(4);
  });

  it('has flags, groups, a dry run, a plan and a search; trained, the curve of one process', () => {
    const vitest = join(root, 'tooling', 'node_modules', '.bin', 'vitest');
    // the copy only has sources, no builds
    const env = { ...process.env, MTL_TEST_BUILDS: undefined };
    const cwd = join(copy, 'packages', 'planning');
    const output = run(vitest, ['run', 'test/example-strategy.test.ts'], { cwd, env });
    expect(output).toMatch(/\d+ passed/);
    expect(output).not.toMatch(/failed/);
  }, 300_000);
});
