import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createTokenizer } from './create-tokenizer.js';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-files-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** Creates a FIFO without a writer and returns its path. Opening it in the normal way would wait forever. */
function fifo(name: string): string {
  const path = join(directory, name);
  execFileSync('mkfifo', [path]);
  return path;
}

describe('a FIFO in place of a file', () => {
  const gpt2 = (fifoName: 'vocab.json' | 'merges.txt') => {
    writeFileSync(join(directory, 'vocab.json'), '{"<|endoftext|>": 0}');
    writeFileSync(join(directory, 'merges.txt'), '');
    rmSync(join(directory, fifoName));
    fifo(fifoName);
    const files = { vocabFile: join(directory, 'vocab.json'), mergeFile: join(directory, 'merges.txt') };
    return createTokenizer({ type: 'GPT2BPETokenizer', ...files });
  };
  const readers: Record<string, () => unknown> = {
    'tokenizer.json': () =>
      createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel: fifo('tokenizer.json') }),
    'tokenizer.json in a directory': () => {
      mkdirSync(join(directory, 'model'));
      fifo('model/tokenizer.json');
      return createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel: join(directory, 'model') });
    },
    'vocab.txt': () => createTokenizer({ type: 'BertWordPieceLowerCase', vocabFile: fifo('vocab.txt') }),
    'vocab.json': () => gpt2('vocab.json'),
    'merges.txt': () => gpt2('merges.txt'),
  };

  it.each(Object.keys(readers))('is a coded error at once: %s', async (name) => {
    await expect(async () => readers[name]!()).rejects.toMatchObject({
      code: expect.stringMatching(/^MTL_DATA_/),
      message: expect.stringMatching(/not a regular file/),
    });
  });
});
