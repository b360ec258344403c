import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { testFolder } from '../../processes/test-folder.mjs';

const program = fileURLToPath(new URL('./sharded-training.mjs', import.meta.url));
const folder = testFolder('sharded-training');
afterAll(folder.remove);
const run = (...flags) => spawnSync(process.execPath, [program, ...flags], { encoding: 'utf8' });

it('trains 60 M parameters on four ranks, each with a quarter of the states, and resumes', {
  tags: ['whole'],
  timeout: 300_000,
}, () => {
  const { status, stdout, stderr } = run('--size', '60m', '--directory', folder.path);
  expect(stderr).toBe('');
  expect(status).toBe(0);
  expect(stdout).toContain('parameters            58.9 M on 4 ranks');
  expect(stdout).toContain('resumed steps         9 to 10 have the same losses and norms');
  expect(readdirSync(folder.path)).toEqual([]);
});

it('refuses a size that it does not know', () => {
  const { status, stderr } = run('--size', '7b');
  expect(status).toBe(1);
  expect(stderr).toBe('error[MTL_SHARDED_TRAINING]: --size 7b is not known; expected 1.3b or 60m\n');
});
