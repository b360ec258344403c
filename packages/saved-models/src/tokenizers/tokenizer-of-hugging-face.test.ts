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

  it.each([
    ['{"do_lower_case": tr', 'MTL_DATA_TOKENIZER'],
    ['null', 'MTL_FLAG_REQUIRED'],
    ['[]', 'MTL_FLAG_REQUIRED'],
  ])('has a coded error for settings of %s', (text, code) => {
    writeFileSync(settings, text);
    expect(() => tokenizerOfHuggingFace(files)).toThrow(expect.objectContaining({ code }));
  });
});
