import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { prepareDefaultCorpus } from './default-corpus.js';

function testDirectory(): string {
  const path = mkdtempSync(join(tmpdir(), 'mtl-corpus-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

describe('prepareDefaultCorpus', () => {
  // no user, not even root, can make a directory at these paths; a recursive mkdir in procfs, as Node.js runs
  // it, would never return
  const unwritable: readonly (readonly [string, (own: string) => string])[] = [
    ['under a file', (own) => join(own, 'file', 'mtl')],
    ['in place of a file', (own) => join(own, 'file')],
    ...(process.platform === 'linux' ? [['in procfs', () => '/proc/mtl/cache'] as const] : []),
  ];
  it.each(unwritable)('says before it trains a tokenizer that it cannot be kept %s', async (_, place) => {
    const own = testDirectory();
    writeFileSync(join(own, 'file'), '');
    const messages: string[] = [];
    const onMessage = (text: string): void => void messages.push(text);
    await expect(
      prepareDefaultCorpus({ directory: place(own), kind: 'gpt', onMessage }),
    ).rejects.toMatchObject({
      code: 'MTL_CORPUS_DIRECTORY',
      exitCode: 2,
      remedy: expect.stringContaining('--data-path'),
    });
    expect(messages).toEqual([]);
  });
});
