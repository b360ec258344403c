import { describe, expect, it } from 'vitest';
import { exportedTokenizerFiles } from './exported-tokenizer-files.js';

describe('exportedTokenizerFiles', () => {
  it('writes the files of a tokenizer that is built in', async () => {
    const files = await exportedTokenizerFiles({ type: 'GPT2BPETokenizer' });
    expect(Object.keys(files).sort()).toEqual([
      ...['merges.txt', 'tokenizer.json', 'tokenizer_config.json', 'vocab.json'],
    ]);
    for (const file of Object.values(files)) expect(file).toEqual({ contents: expect.any(String) as string });
    expect(Object.keys(await exportedTokenizerFiles({ type: 'ByteLevelTokenizer' }))).toContain(
      'tokenizer.json',
    );
  });

  it('copies the files of one that consists of them', async () => {
    const vocabFile = '/bert/words.txt';
    expect(await exportedTokenizerFiles({ type: 'BertWordPieceCase', vocabFile })).toEqual({
      'vocab.txt': vocabFile,
    });
  });

  it('has none for ids without text, or without a tokenizer', async () => {
    expect(await exportedTokenizerFiles({ type: 'NullTokenizer', vocabSize: 9 })).toEqual({});
    expect(await exportedTokenizerFiles(undefined)).toEqual({});
  });
});
