import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { createTokenizer } from './create-tokenizer.js';

// tooling/fixtures/make-tokenizer-json-fixtures.py makes the fixtures.
const { cases } = JSON.parse(
  gunzipSync(readFileSync(new URL('../fixtures/tokenizer-json.json.gz', import.meta.url))).toString(),
) as {
  cases: { name: string; json: object; encoded: [string, number[]][]; decoded: [number[], string][] }[];
};

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe.each(cases)('tokenizer.json: $name', async ({ name, json, encoded, decoded }) => {
  const tokenizerModel = join(directory, `${name}.json`);
  writeFileSync(tokenizerModel, JSON.stringify(json));
  const tokenizer = await createTokenizer({
    type: 'HuggingFaceTokenizer',
    tokenizerModel,
    eodToken: '[UNK]',
  });

  it('encodes as the tokenizers library', () => {
    expect(encoded.map(([text]) => [text, tokenizer.encode(text)])).toEqual(encoded);
  });

  it('decodes as the tokenizers library', () => {
    expect(decoded.map(([ids]) => [ids, tokenizer.decode(ids)])).toEqual(decoded);
  });
});

// these tests fail or take very long if an algorithm needs a stack frame for each token, or quadratic time
describe('tokenizer.json: long words', () => {
  const letters = [...'abcdefghijklmnopqrstuvwxyz'];
  const word = Array.from({ length: 150_000 }, (_, i) => letters[(i * i + 7 * i) % 26]).join('');
  const open = (name: string, model: object) => {
    const tokenizerModel = join(directory, `${name}.json`);
    writeFileSync(tokenizerModel, JSON.stringify({ model }));
    return createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel, eodToken: '[UNK]' });
  };

  it('are split by WordPiece', { timeout: 30_000 }, async () => {
    const tokens = ['[UNK]', ...letters, ...letters.map((letter) => `##${letter}`), '##xyz'];
    const tokenizer = await open('long WordPiece', {
      type: 'WordPiece',
      unk_token: '[UNK]',
      max_input_chars_per_word: 1_000_000,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
    });
    expect(tokenizer.encode('axyzb')).toEqual([1, 53, 28]);
    expect(tokenizer.encode('a!')).toEqual([0]);
    expect(tokenizer.encode(word)).toHaveLength(word.length);
  });

  it('are split by Unigram', { timeout: 30_000 }, async () => {
    const vocab = [['[UNK]', 0], ...letters.map((letter) => [letter, -1])];
    const tokenizer = await open('long Unigram', { type: 'Unigram', unk_id: 0, vocab });
    expect(tokenizer.encode(word)).toHaveLength(word.length);
  });
});
