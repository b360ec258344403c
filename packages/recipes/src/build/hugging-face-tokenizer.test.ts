import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { huggingFaceTokenizer } from './hugging-face-tokenizer.js';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-tokenizer-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const vocabulary = { 'vocab.txt': '/bert/vocab.txt' };

describe('huggingFaceTokenizer', () => {
  it.each([
    [{ do_lower_case: true }, 'BertWordPieceLowerCase'],
    [{ do_lower_case: false }, 'BertWordPieceCase'],
  ])('reads the case of letters: %o is %s', (settings, type) => {
    const path = join(directory, `${type}.json`);
    writeFileSync(path, JSON.stringify(settings));
    expect(huggingFaceTokenizer({ ...vocabulary, 'tokenizer_config.json': path })).toEqual({
      ...{ type, vocabFile: '/bert/vocab.txt' },
    });
  });

  it.each([undefined, '{}', '{"do_lower_case": "yes"}'])(
    'refuses to guess the case of letters from %s',
    (text) => {
      const path = join(directory, 'settings.json');
      if (text !== undefined) writeFileSync(path, text);
      const files = text === undefined ? vocabulary : { ...vocabulary, 'tokenizer_config.json': path };
      expect(() => huggingFaceTokenizer(files)).toThrow(
        expect.objectContaining({
          code: 'MTL_FLAG_REQUIRED',
          remedy: expect.stringContaining('--vocab-file /bert/vocab.txt') as string,
        }) as Error,
      );
    },
  );

  it('takes tokenizer.json before others, and both files of byte pairs or none', () => {
    const bytePairs = { 'vocab.json': '/gpt/vocab.json', 'merges.txt': '/gpt/merges.txt' };
    expect(huggingFaceTokenizer({ ...vocabulary, 'tokenizer.json': '/t.json' })).toEqual({
      ...{ type: 'HuggingFaceTokenizer', tokenizerModel: '/t.json' },
    });
    expect(huggingFaceTokenizer(bytePairs)).toEqual({
      ...{ type: 'GPT2BPETokenizer', vocabFile: '/gpt/vocab.json', mergeFile: '/gpt/merges.txt' },
    });
    expect(huggingFaceTokenizer({ 'vocab.json': '/gpt/vocab.json' })).toBeUndefined();
  });
});
