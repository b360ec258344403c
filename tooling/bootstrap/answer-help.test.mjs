import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { root } from './bootstrap.mjs';
import { commands } from './dev.mjs';

const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const { path: folder, write, writeProgram, remove } = testFolder('help');
const called = join(folder, 'called');

/**
 * Makes a copy like a fresh clone: the scripts without packages and builds, and fake tools that record their
 * calls.
 */
beforeAll(() => {
  cpSync(join(root, 'tooling'), join(folder, 'tooling'), {
    recursive: true,
    filter: (source) => !source.includes('node_modules') && !source.endsWith('build'),
  });
  for (const file of ['package.json', 'pnpm-lock.yaml']) write(file, readFileSync(join(root, file), 'utf8'));
  for (const tool of ['npx', 'npm', 'pnpm', 'turbo', 'tsc', 'biome', 'cmake', 'c++', 'apt-get'])
    writeProgram(`tools/${tool}`, `echo ${tool} >> '${called}'; exit 1`);
});
afterAll(remove);

function runScript(words) {
  rmSync(called, { force: true });
  const env = { PATH: join(folder, 'tools') };
  return spawnSync(process.execPath, words, { cwd: folder, env, encoding: 'utf8' });
}

const programs = Object.entries(scripts)
  .filter(([, words]) => /^node \S+( \w+)?$/.test(words) && !words.includes('run-app.mjs'))
  .map(([name, words]) => [name, words.split(' ').slice(1)]);
const developers = Object.keys(commands).map((name) => [name, ['tooling/bootstrap/dev.mjs', name]]);

describe('--help of the commands of package.json and of npm run dev', () => {
  it.each([...programs, ...developers])(
    '%s: prints its usage, installs and builds nothing',
    (name, words) => {
      const { status, stdout, stderr } = runScript([...words, '--help']);
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
      expect(stdout).toMatch(/^usage: npm (run )?[a-z]/);
      expect(stdout).toContain(name);
      expect(existsSync(called)).toBe(false);
    },
  );

  it('npm run gpt-train: prints its flags from the sources', { tags: ['whole'] }, () => {
    // in this test's checkout, everything that builds fails
    const fails = '() => { throw new Error("builds"); }';
    const bootstrap = [
      `export const root = ${JSON.stringify(root)};`,
      'export const ensurePackages = () => {};',
      `export const bootstrap = ${fails};`,
    ];
    write('tooling/bootstrap/bootstrap.mjs', bootstrap.join('\n'));
    symlinkSync(join(root, 'tooling/node_modules'), join(folder, 'tooling/node_modules'));
    const { status, stdout, stderr } = runScript(['tooling/bootstrap/run-app.mjs', 'gpt-train', '--help']);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toContain('usage: gpt-train [flags]');
    expect(runScript(['tooling/bootstrap/run-app.mjs', 'gpt-train']).stderr).toContain('builds');
  });
});
