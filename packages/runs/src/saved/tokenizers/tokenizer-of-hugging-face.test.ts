import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { tokenizerOfHuggingFace } from './hugging-face-tokenizers.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-tokenizer-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('tokenizerOfHuggingFace', () => {
  const settings = join(directory, 'tokenizer_config.json');
  const files = { 'vocab.txt': join(directory, 'vocab.txt'), 'tokenizer_config.json': settings };

  it('refuses tokens next to a vocabulary that has no tokenizer.json', () => {
    writeFileSync(files['vocab.txt'], '[UNK]\n[SEP]\n');
    writeFileSync(settings, '{"do_lower_case": true, "additional_special_tokens": ["[SEP]"]}');
    expect(tokenizerOfHuggingFace(files)).toMatchObject({ type: 'BertWordPieceLowerCase' });
    writeFileSync(
      settings,
      '{"do_lower_case": true, "additional_special_tokens": ["[SEP]", "<|im_start|>"]}',
    );
    const added = join(directory, 'added_tokens.json');
    expect(() => tokenizerOfHuggingFace(files)).toThrow(/has the token "<\|im_start\|>" next to vocab\.txt/);
    writeFileSync(settings, '{"do_lower_case": true}');
    writeFileSync(added, '{"<a>": 2}');
    expect(() => tokenizerOfHuggingFace({ ...files, 'added_tokens.json': added })).toThrow(
      /has the token "<a>"/,
    );
  });

  let folders = 0;
  /** Writes the files to a new folder, and returns the folder's tokenizer. */
  const makeTokenizer = (contents: Readonly<Record<string, unknown>>) => {
    const folder = join(directory, String(++folders));
    mkdirSync(folder);
    const written = Object.entries(contents).map(([name, value]) => {
      const path = join(folder, name);
      writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value));
      return [name, path];
    });
    return tokenizerOfHuggingFace(Object.fromEntries(written));
  };
  const bytePairs = { 'vocab.json': { a: 0, '<end>': 1 }, 'merges.txt': '#version: 0.2\n' };

  it.each([
    ['eos_token', { 'tokenizer_config.json': { eos_token: '<new>' } }],
    ['pad_token', { 'tokenizer_config.json': { pad_token: { content: '<new>', lstrip: false } } }],
    ['a token of one model', { 'tokenizer_config.json': { image_token: '<new>' } }],
    [
      'added_tokens_decoder',
      { 'tokenizer_config.json': { added_tokens_decoder: { 2: { content: '<new>' } } } },
    ],
    ['special_tokens_map.json', { 'special_tokens_map.json': { sep_token: '<new>' } }],
    ['its list', { 'special_tokens_map.json': { additional_special_tokens: ['<end>', '<new>'] } }],
    ['added_tokens.json', { 'added_tokens.json': { '<new>': 2 } }],
  ])('refuses a token of %s that is not in the vocabulary', (_name, files) => {
    const refused = { code: 'MTL_DATA_TOKENIZER', message: expect.stringContaining('has the token "<new>"') };
    expect(() => makeTokenizer({ ...bytePairs, ...files })).toThrow(expect.objectContaining(refused));
    const known = JSON.parse(JSON.stringify(files).replaceAll('<new>', '<end>')) as object;
    expect(makeTokenizer({ ...bytePairs, ...known })).toMatchObject({ type: 'GPT2BPETokenizer' });
  });

  it('leaves files alone that are next to no vocabulary', () => {
    const added = { 'added_tokens.json': { '<new>': 2 } };
    expect(makeTokenizer({ 'vocab.json': bytePairs['vocab.json'], ...added })).toBeUndefined();
    expect(makeTokenizer(added)).toBeUndefined();
  });

  it.each(['{"a": ', 'null', '[]'])('has a coded error for a vocabulary of %s', (text) => {
    expect(() => makeTokenizer({ ...bytePairs, 'vocab.json': text })).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_TOKENIZER' }),
    );
  });

  it('has a coded error for a vocabulary that is not there', () => {
    const gone = join(directory, 'gone', 'vocab.txt');
    expect(() => tokenizerOfHuggingFace({ 'vocab.txt': gone })).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_TOKENIZER' }),
    );
  });

  it.each([
    ['{"do_lower_case": tr', 'MTL_DATA_TOKENIZER'],
    ['null', 'MTL_DATA_TOKENIZER'],
    ['[]', 'MTL_DATA_TOKENIZER'],
    ['{"do_lower_case": 1}', 'MTL_FLAG_REQUIRED'],
  ])('has a coded error for settings of %s', (text, code) => {
    expect(() => makeTokenizer({ 'vocab.txt': '[UNK]\n', 'tokenizer_config.json': text })).toThrow(
      expect.objectContaining({ code }),
    );
  });
});
