import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readJobSecret } from './job-secret.js';

const secret = 'sixteen bytes or more';
let directory: string;
let path: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-secret-'));
  path = join(directory, 'secret');
  writeFileSync(path, `${secret}\n`, { mode: 0o600 });
});
afterAll(() => rmSync(directory, { recursive: true }));

describe('readJobSecret', () => {
  it('takes the variable, else the file, without its line break', () => {
    expect(readJobSecret({ MTL_JOB_SECRET: secret, MTL_JOB_SECRET_FILE: '/nowhere' })).toBe(secret);
    expect(readJobSecret({ MTL_JOB_SECRET: '', MTL_JOB_SECRET_FILE: path })).toBe(secret);
  });

  it('refuses a file that others may read', () => {
    for (const mode of [0o640, 0o604, 0o660]) {
      chmodSync(path, mode);
      expect(() => readJobSecret({ MTL_JOB_SECRET_FILE: path })).toThrow(/others may read/);
    }
    chmodSync(path, 0o600);
  });

  it.each([
    ['nothing', {}],
    ['a short one', { MTL_JOB_SECRET: 'fifteen bytes!!' }],
    ['a file that is not there', { MTL_JOB_SECRET_FILE: '/nowhere/secret' }],
  ])('refuses %s with a remedy', (_, variables) => {
    expect(() => readJobSecret(variables)).toThrow(
      expect.objectContaining({
        code: 'MTL_JOB_SECRET',
        exitCode: 2,
        remedy: expect.stringContaining('urandom'),
      }),
    );
  });
});
