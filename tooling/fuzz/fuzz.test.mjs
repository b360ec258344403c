import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mutateBytes, mutateJson, Random } from './mutations.mjs';

const here = fileURLToPath(new URL('.//', import.meta.url));
let folder;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'mtl-fuzz-test-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function fuzz(...flags) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(here, 'fuzz.mjs'), ...flags], {
    encoding: 'utf8',
  });
  return { status, output: stdout + stderr };
}

/** Formats whose readers fail in every way, regardless of the damage. */
const brokenFormats = `
  import { writeFileSync } from 'node:fs';
  import { join } from 'node:path';
  let calls = 0;
  const broken = (fail, invariant = () => undefined) => ({
    make: (directory) => writeFileSync(join(directory, 'a'), 'abc'),
    files: () => ['a'],
    mutate: (bytes) => bytes.subarray(1),
    // the first call reads the undamaged file
    read: () => (calls++ === 0 ? 0 : fail()),
    invariant,
  });
  export const formats = {
    hang: broken(() => { for (;;); }),
    crash: broken(() => process.abort()),
    exit: broken(() => process.exit(0)),
    uncoded: broken(() => null.length),
    different: broken(() => 1, (result) => result),
    memory: broken(() => [1, 2, 3].map(() => Buffer.alloc(7e8, 1))),
    sound: broken(() => 0, (result) => result),
  };
`;

describe('npm run dev -- fuzz', () => {
  const expected = {
    hang: /FAILED hang 1-0 \(a\): hang: took more than 5 seconds/,
    crash: /FAILED crash 1-0 \(a\): crash: ended with SIGABRT/,
    exit: /FAILED exit 1-0 \(a\): crash: ended with 0/,
    uncoded: /FAILED uncoded 1-0 \(a\): uncoded: TypeError/,
    different: /FAILED different 1-0 \(a\): different: gives 1, the untouched file 0/,
    memory: /FAILED memory 1-0 \(a\): memory: took \d{10} bytes/,
  };

  it.each(Object.keys(expected))('finds a reader that goes wrong: %s', (name) => {
    const path = join(folder, 'formats.mjs');
    writeFileSync(path, brokenFormats);
    const flags = ['--formats', path, '--corpus', folder, '--cases', '1', '--only', name];
    const { status, output } = fuzz(...flags, '--case-seconds', name === 'hang' ? '5' : '60');
    expect(output).toMatch(expected[name]);
    expect(status).toBe(1);
    const [, kept] = /kept as (.*?);/.exec(output);
    expect(existsSync(kept)).toBe(true);
    rmSync(kept);
  });

  it('passes a reader that is sound, and refuses a format that it does not know', () => {
    const path = join(folder, 'formats.mjs');
    writeFileSync(path, brokenFormats);
    const flags = ['--formats', path, '--corpus', folder];
    const { status, output } = fuzz(...flags, '--cases', '2', '--only', 'sound');
    expect(output).toMatch(/sound: 2 files, 2 read, 0 refused\nno failures/);
    expect(status).toBe(0);
    expect(fuzz(...flags, '--only', 'x').output).toMatch(/--only x; expected one of hang/);
    expect(fuzz('--cases', 'x').status).toBe(2);
  });

  it('reads every format, and what failed once', () => {
    const { status, output } = fuzz('--cases', '2');
    expect(output).toMatch(/no failures/);
    expect(status).toBe(0);
  });
});

describe('damage', () => {
  it('follows from the seed', () => {
    const bytes = Buffer.from('{"a": [1, 2, {"b": "text"}], "c": 1.5}');
    for (const mutate of [mutateBytes, mutateJson]) {
      const made = (seed) =>
        Array.from({ length: 50 }, (_, i) => mutate(bytes, new Random(`${seed} ${i}`)).toString('hex'));
      expect(made(1)).toEqual(made(1));
      expect(made(1)).not.toEqual(made(2));
      expect(new Set(made(1)).size).toBeGreaterThan(25);
    }
  });
});
