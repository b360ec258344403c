import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTokenizer } from '@mtl/tokenizers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { exportedTokenizerNotice } from './exported-tokenizer-notice.js';
import { exportedTokenizerFiles } from './hugging-face-tokenizers.js';

const model = { maxPositionEmbeddings: 64 };

describe('exportedTokenizerFiles', () => {
  it('writes the files of a tokenizer that is built in', async () => {
    const files = await exportedTokenizerFiles({ type: 'GPT2BPETokenizer' }, model);
    expect(Object.keys(files).sort()).toEqual([
      ...['merges.txt', 'tokenizer.json', 'tokenizer_config.json', 'vocab.json'],
    ]);
    for (const file of Object.values(files)) expect(file).toEqual({ contents: expect.any(String) as string });
    expect(Object.keys(await exportedTokenizerFiles({ type: 'ByteLevelTokenizer' }, model))).toContain(
      'tokenizer.json',
    );
  });

  it('copies the files of a tokenizer that consists of files', async () => {
    const vocabFile = '/bert/words.txt';
    expect(await exportedTokenizerFiles({ type: 'BertWordPieceCase', vocabFile }, model)).toEqual({
      'vocab.txt': vocabFile,
    });
  });

  it('adds settings to a tokenizer.json without them, and copies those that came', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'mtl-tokenizer-'));
    try {
      const { 'tokenizer.json': written } = await exportedTokenizerFiles(
        { type: 'ByteLevelTokenizer' },
        model,
      );
      const path = join(folder, 'tokenizer.json');
      writeFileSync(path, (written as { contents: string }).contents);
      const options = { type: 'HuggingFaceTokenizer', tokenizerModel: path } as const;
      const { 'tokenizer_config.json': settings } = await exportedTokenizerFiles(options, model);
      expect(JSON.parse((settings as { contents: string }).contents)).toMatchObject({
        eos_token: '<|endoftext|>',
        model_max_length: 64,
      });
      const own = join(folder, 'tokenizer_config.json');
      writeFileSync(own, '{"eos_token": "<|endoftext|>"}');
      writeFileSync(join(folder, 'config.json'), '{"model_type": "llama"}');
      writeFileSync(join(folder, 'generation_config.json'), '{"eos_token_id": 2}');
      expect(await exportedTokenizerFiles(options, model)).toEqual({
        'tokenizer.json': path,
        'tokenizer_config.json': own,
      });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('has none for ids without text, or without a tokenizer', async () => {
    expect(await exportedTokenizerFiles({ type: 'NullTokenizer', vocabSize: 9 }, model)).toEqual({});
    expect(await exportedTokenizerFiles(undefined, model)).toEqual({});
  });
});

describe('exportedTokenizerNotice', () => {
  it.each([
    // for this model_type, transformers 5.18 builds the components of its Qwen2Tokenizer, regardless of the
    // contents of tokenizer.json
    ['qwen2', /may make other ids \(.*\), with the tokenizer in .*; load it with PreTrainedTokenizerFast/],
    ['llama', undefined],
    ['gpt2', undefined],
  ])('says whether AutoTokenizer makes other ids for model_type %s', async (modelType, notice) => {
    const folder = mkdtempSync(join(tmpdir(), 'mtl-tokenizer-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const options = { type: 'ByteLevelTokenizer' } as const;
    const files = await exportedTokenizerFiles(options, model);
    for (const [name, file] of Object.entries(files))
      writeFileSync(join(folder, name), (file as { contents: string }).contents);
    writeFileSync(join(folder, 'config.json'), JSON.stringify({ model_type: modelType }));
    const found = await exportedTokenizerNotice(folder, await createTokenizer(options));
    if (notice === undefined) expect(found).toBeUndefined();
    else expect(found).toMatch(notice);
  });
});
