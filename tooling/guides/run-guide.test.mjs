import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { outputDifference } from './compare-output.mjs';
import { parseGuide } from './parse-guide.mjs';
import { runGuide } from './run-guide.mjs';

const folder = testFolder('guides');
afterAll(() => folder.remove());

/**
 * The number of seconds to sleep. No other process sleeps for exactly this time, so it identifies the
 * process.
 */
const long = `1000.${process.pid}`;

let numGuides = 0;
/** Writes a guide with the given blocks. Each block has an info string and a content. */
function writeGuide(...blocks) {
  numGuides += 1;
  const path = join(folder.path, `guide-${process.pid}-${numGuides}.md`);
  writeFileSync(path, blocks.map(([info, text]) => `Text.\n\n\`\`\`${info}\n${text}\n\`\`\`\n`).join('\n'));
  return path;
}

/** Returns the temporary folders of the guide at `path` that still exist. */
const listFolders = (path) =>
  readdirSync(join(folder.path, '..')).filter((name) =>
    name.startsWith(`mtl-guide-${basename(path, '.md')}-`),
  );

describe('runGuide', () => {
  it('writes files, runs commands in order in an empty folder, compares their output and removes the folder', async () => {
    const path = writeGuide(
      ['sh', 'ls\npwd > where'],
      ['text', ''],
      ['js file=deep/own.mjs', "console.log('one', process.cwd().length > 1);"],
      ['sh', 'node deep/own.mjs\necho two >&2'],
      ['text', 'one true\ntwo'],
      ['sh not-run="it needs a GPU"', 'exit 1'],
      ['sh', `cp where ${folder.path}/where`],
    );
    await runGuide({ path });
    const where = readFileSync(join(folder.path, 'where'), 'utf8').trim();
    expect(basename(where)).toMatch(/^mtl-guide-/);
    expect(existsSync(where)).toBe(false);
  });

  it.each([
    [
      'other output',
      [
        ['sh', 'echo 1'],
        ['text', '2'],
      ],
      /:9: the guide shows\n {2}2\nthe output has\n {2}1/,
    ],
    [
      'more output',
      [
        ['sh', 'echo 1; echo 2'],
        ['text', '1'],
      ],
      /the output goes on with:\n {2}2/,
    ],
    [
      'a command that fails',
      [['sh', 'echo before; false; echo after']],
      /:3: the command ended with 1, expected 0/,
    ],
    ['a pipe that fails', [['sh', 'false | cat']], /ended with 1, expected 0/],
    ['an unset variable', [['sh', 'echo $NOT_SET_ANYWHERE']], /ended with (1|127), expected 0/],
    ['a command that should fail', [['sh status=2', 'true']], /ended with 0, expected 2/],
    ['a command that takes too long', [['sh', `sleep ${long}`]], /took longer than 0.5 s/],
    ['a process that is left', [['sh', `setsid sleep ${long} > /dev/null &`]], /left 1 processes running/],
    ['a process that holds the output', [['sh', `sleep ${long} &`]], /left 1 processes running/],
  ])('fails on %s, and leaves neither folder nor process', async (_, blocks, message) => {
    const path = writeGuide(...blocks);
    const timeoutMs = blocks[0][1] === `sleep ${long}` ? 500 : 60_000;
    await expect(runGuide({ path, timeoutMs })).rejects.toThrow(message);
    expect(listFolders(path)).toEqual([]);
    const commands = readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map((pid) => {
        try {
          return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        } catch {
          return '';
        }
      });
    expect(commands).not.toContain(`sleep\x00${long}\x00`);
  });
});

describe('parseGuide', () => {
  const parse = (...blocks) =>
    parseGuide({ path: 'a.md', text: readFileSync(writeGuide(...blocks), 'utf8') });

  it.each([
    ['a block in another language', [['json', '{}']]],
    ['a block without a language', [['', 'mtl doctor']]],
    ['output without a command', [['text', '1']]],
    [
      'output after a file',
      [
        ['sh file=a.sh', 'true'],
        ['text', '1'],
      ],
    ],
    [
      'a second output',
      [
        ['sh', 'true'],
        ['text', ''],
        ['text', ''],
      ],
    ],
    [
      'output after a command that is not run',
      [
        ['sh not-run="slow"', 'true'],
        ['text', '1'],
      ],
    ],
    ['a file outside the folder', [['sh file=../a.sh', 'true']]],
    ['an absolute file', [['sh file=/tmp/a.sh', 'true']]],
    ['a status that is none', [['sh status=ok', 'true']]],
  ])('refuses %s', (_, blocks) => {
    expect(() => parse(...blocks)).toThrow(/^a\.md:\d+: a block that is neither run nor marked: /);
  });

  it.each([
    ['a mark that it does not know', 'sh skip', /cannot read "skip"/],
    ['a reason that is missing', 'sh not-run', /cannot read "not-run"/],
    ['an empty reason', 'sh not-run=""', /cannot read "not-run=/],
  ])('refuses %s', (_, info, message) => {
    expect(() => parse([info, 'true'])).toThrow(message);
  });

  it.each([
    ['a block without an end', '```sh\ntrue\n', /has no end/],
    ['an indented block', '- item\n\n  ```sh\n  true\n  ```\n', /first column/],
    ['a block of tildes', '~~~sh\ntrue\n~~~\n', /first column/],
  ])('refuses %s', (_, text, message) => {
    expect(() => parseGuide({ path: 'a.md', text })).toThrow(message);
  });
});

describe('outputDifference', () => {
  it.each([
    ['1\n2', '1\n2\n\n'],
    ['a  ', 'a'],
    ['…', '1\n2'],
    ['1\n…', '1'],
    ['…\n3', '1\n2\n3'],
    ['1\n…\n3\n4\n…\n6', '1\n2\n3\n3\n4\n5\n6'],
    ['took … s (a+b)', 'took 5.3 s (a+b)'],
    ['~12.5 ms', '3 ms'],
    ['loss ≈5.231084E+00 |', 'loss 5.232E+00 |'],
    ['≈1,000', '1,001'],
    ['≃5.16 MiB ~3 ms', '4.95 MiB 8 ms'],
  ])('accepts %j for %j', (shown, printed) => {
    expect(outputDifference({ shown, printed })).toBeUndefined();
  });

  it.each([
    ['1\n2', '1', 'the guide shows\n  2\nthe output has\n  (nothing more)'],
    ['1', '1\n2', 'the output goes on with:\n  2'],
    ['…\n3', '1\n3\n4', 'the guide shows\n  3\nthe output has\n  4'],
    ['2\n…', '1\n2', 'the guide shows\n  2\nthe output has\n  1'],
    ['1\n…\n2\n4', '1\n2\n3', 'the guide shows\n  4\nthe output has\n  3'],
    ['≈5.231', '5.4', 'the guide shows\n  ≈5.231\nthe output has\n  5.4'],
    ['≃5.16 MiB', '4.60 MiB', 'the guide shows\n  ≃5.16 MiB\nthe output has\n  4.60 MiB'],
    ['~12 ms', 'some ms', 'the guide shows\n  ~12 ms\nthe output has\n  some ms'],
    ['a.c', 'abc', 'the guide shows\n  a.c\nthe output has\n  abc'],
  ])('refuses %j for %j', (shown, printed, message) => {
    expect(outputDifference({ shown, printed })).toBe(message);
  });
});
