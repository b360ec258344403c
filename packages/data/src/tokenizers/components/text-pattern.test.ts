import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createTokenizer } from '../create-tokenizer.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** A tokenizer with this pre-tokenizer. */
function open(preTokenizer: object) {
  const tokenizerModel = join(directory, 'tokenizer.json');
  const model = { type: 'BPE', vocab: { '<eos>': 0, a: 1, '\n': 2, '\n\n': 3 }, merges: [['\n', '\n']] };
  writeFileSync(tokenizerModel, JSON.stringify({ model, pre_tokenizer: preTokenizer }));
  return createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel });
}

const split = (expression: string) => ({
  type: 'Split',
  pattern: { Regex: expression },
  behavior: 'Isolated',
  invert: false,
});

// Results of patterns in the tokenizers library are in tokenizer-json.test.ts.
describe('patterns of a tokenizer.json', () => {
  it('keep a blank line in one word where the quantifier is possessive', async () => {
    const tokenizer = await open(split('[a-z]++|\\s++$|\\s*[\\r\\n]|\\s'));
    expect(tokenizer.encode('a\n\na')).toEqual([1, 3, 1]);
  });

  it.each(['(', '[z-a]', '(?s)a', '(?<='])('name the expression %s, which is none', async (expression) => {
    await expect(open(split(expression))).rejects.toMatchObject({
      code: 'MTL_DATA_TOKENIZER',
      message: expect.stringContaining(`the expression ${JSON.stringify(expression)}`),
    });
  });

  it('refuse a behavior and a length that are none', async () => {
    await expect(open({ ...split('a'), behavior: 'Merged' })).rejects.toMatchObject({
      code: 'MTL_DATA_TOKENIZER',
      message: expect.stringContaining('pre_tokenizer.behavior is "Merged"'),
    });
    await expect(open({ type: 'FixedLength', length: 0 })).rejects.toMatchObject({
      code: 'MTL_DATA_TOKENIZER',
      message: expect.stringContaining('pre_tokenizer.length is 0'),
    });
  });
});
