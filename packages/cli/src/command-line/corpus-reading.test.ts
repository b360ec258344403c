import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BadLines, readDocuments } from '@mtl/data';
import { UsageError } from '@mtl/errors';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inWordsOfFlags } from './corpus-reading.js';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-corpus-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

/** Reads an invalid corpus, and returns the remedy of the error. */
async function readRemedy(content: string, { skips = false } = {}): Promise<string | undefined> {
  const path = join(directory, 'a.jsonl');
  writeFileSync(path, content);
  const bad = new BadLines({ skip: skips });
  try {
    let numDocuments = 0;
    for await (const _ of readDocuments({ path, onBadLine: bad.onBadLine })) numDocuments++;
    bad.checkSomeUsable(numDocuments);
    return undefined;
  } catch (error) {
    const worded = inWordsOfFlags(error, { keyFlag: '--json-keys', skipsBadLines: skips });
    return (worded as { readonly remedy?: string }).remedy;
  }
}

describe('inWordsOfFlags', () => {
  it.each([
    ['{"content": "a"}\n', '--json-keys content; or leave out all such lines and rows with --skip-bad-lines'],
    ['{"id": 1}\n', '--json-keys KEY; or leave'],
    [
      '{"text": "a"}\nno\n',
      'repair or remove the line; or leave out all such lines and rows with --skip-bad-lines',
    ],
    ['{"text": "a"}\n[1]\n', 'leave out all such lines and rows with --skip-bad-lines'],
  ])('names the flags that fix %j', async (content, remedy) => {
    expect(await readRemedy(content)).toContain(remedy);
  });

  it('keeps the class, the exit status and all else of an error', () => {
    const error = new UsageError('MTL_DATA_CORPUS', 'torn', {
      expected: 'a line',
      details: { isBadLine: true },
    });
    const worded = inWordsOfFlags(error, { keyFlag: '--json-key', skipsBadLines: false });
    expect(worded).toBeInstanceOf(UsageError);
    const { code, message, expected, details, exitCode } = error;
    expect(worded).toMatchObject({ code, message, expected, details, exitCode, cause: error });
  });

  it('advises nothing that is done already, and leaves other errors alone', async () => {
    expect(await readRemedy('{"content": "a"}\n', { skips: true })).toBe(
      'name what holds the text: --json-keys content',
    );
    const other = new UsageError('MTL_TEST', 'other');
    expect(inWordsOfFlags(other, { keyFlag: '--json-key', skipsBadLines: false })).toBe(other);
  });
});
