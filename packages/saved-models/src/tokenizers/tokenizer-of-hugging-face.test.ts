import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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

  it.each([
    ['{"do_lower_case": tr', 'MTL_DATA_TOKENIZER'],
    ['null', 'MTL_FLAG_REQUIRED'],
    ['[]', 'MTL_FLAG_REQUIRED'],
  ])('has a coded error for settings of %s', (text, code) => {
    writeFileSync(settings, text);
    expect(() => tokenizerOfHuggingFace(files)).toThrow(expect.objectContaining({ code }));
  });
});
