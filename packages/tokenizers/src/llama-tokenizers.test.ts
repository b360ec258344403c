import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { createTokenizer } from './create-tokenizer.js';

// tooling/fixtures/make-llama-tokenizer-fixtures.py makes the fixtures.
const { cases } = JSON.parse(
  gunzipSync(readFileSync(new URL('../fixtures/llama-tokenizers.json.gz', import.meta.url))).toString(),
) as {
  cases: {
    name: string;
    json: object;
    start: number[];
    encoded: [string, number[]][];
    decoded: [number[], string][];
  }[];
};

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe.each(cases)('a tokenizer.json like $name’s', async ({ name, json, start, encoded, decoded }) => {
  const tokenizerModel = join(directory, `${name}.json`);
  writeFileSync(tokenizerModel, JSON.stringify(json));
  const tokenizer = await createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel });

  it('encodes as the tokenizers library', () => {
    expect(encoded.map(([text]) => [text, tokenizer.encode(text)])).toEqual(encoded);
  });

  it('begins a text as the tokenizers library', () => {
    expect(tokenizer.startIds).toEqual(start);
  });

  it('decodes as the tokenizers library', () => {
    expect(decoded.map(([ids]) => [ids, tokenizer.decode(ids)])).toEqual(decoded);
  });
});
