import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SharedSecretFile } from './shared-secret.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'mtl-shared-secret-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const variables = (more: Readonly<Record<string, string>> = {}) => ({
  XDG_RUNTIME_DIR: folder,
  MASTER_ADDR: '127.0.0.1',
  MASTER_PORT: '29500',
  WORLD_SIZE: '2',
  ...more,
});
const file = (more?: Readonly<Record<string, string>>) => new SharedSecretFile(variables(more));

describe('SharedSecretFile', () => {
  it('gives the others what rank 0 made, readable by this user alone, until it is removed', () => {
    expect(file().find()).toBeUndefined();
    const made = file();
    const secret = made.create();
    expect(secret).toMatch(/^[0-9a-f]{64}$/);
    expect(file().find()).toBe(secret);
    expect(statSync(made.path).mode & 0o777).toBe(0o600);
    expect(statSync(dirname(made.path)).mode & 0o777).toBe(0o700);
    made.remove();
    expect(readdirSync(dirname(made.path))).toEqual([]);
  });

  it('keeps jobs apart by port, run and restart', () => {
    file().create();
    for (const other of [
      { MASTER_PORT: '1' },
      { TORCHELASTIC_RUN_ID: 'a' },
      { TORCHELASTIC_RESTART_COUNT: '1' },
    ])
      expect(file(other).find()).toBeUndefined();
  });

  it('takes the file of a job that has ended for none, and replaces it', () => {
    const made = file();
    const secret = made.create();
    const content = JSON.parse(readFileSync(made.path, 'utf8'));
    // simulates that a different process has reused the process id of the file's creator
    writeFileSync(made.path, JSON.stringify({ ...content, started: '1' }), { mode: 0o600 });
    expect(file().find()).toBeUndefined();
    const next = file().create();
    expect(next).not.toBe(secret);
    expect(file().find()).toBe(next);
  });

  it('refuses a second job at the same place while the first one starts', () => {
    const made = file();
    made.create();
    const started = readFileSync(`/proc/${process.ppid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')[19];
    const other = { secret: 'of another', pid: process.ppid, started };
    writeFileSync(made.path, JSON.stringify(other), { mode: 0o600 });
    expect(() => file().create()).toThrow(
      expect.objectContaining({ code: 'MTL_JOB_SECRET', remedy: expect.stringContaining('MASTER_PORT') }),
    );
    made.remove(); // it is not ours
    expect(file().find()).toBe('of another');
  });

  it('refuses a folder or file that others can reach', () => {
    const made = file();
    made.create();
    chmodSync(made.path, 0o644);
    expect(() => file().find()).toThrow(/alone can read/);
    chmodSync(made.path, 0o600);
    chmodSync(dirname(made.path), 0o755);
    expect(() => file()).toThrow(/alone can enter/);
    rmSync(dirname(made.path), { recursive: true });
    mkdirSync(join(folder, 'elsewhere'), { mode: 0o700 });
    symlinkSync(join(folder, 'elsewhere'), dirname(made.path));
    expect(() => file()).toThrow(/alone can enter/);
  });
});
