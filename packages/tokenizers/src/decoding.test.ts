import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { createTokenizer, type Tokenizer, trainByteLevelBpe, trainWordPiece } from './index.js';

// texts with emoji of several code points, ideographs, combining marks, a byte order mark, and scripts with
// two to four bytes per character
const texts = [
  '打',
  'I 😀 👩‍👩‍👧‍👦 🇩🇪 ok',
  '漢字かな交じり文、テスト。',
  'e\u0301 n\u0303 o\u0323\u0302 naïve',
  '\ufeffмир हिन्दी 안녕',
  '𠮷野家 \u{10ffff}\u0000 end',
];

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function fromJson(name: string, json: object): Promise<Tokenizer> {
  const tokenizerModel = join(directory, `${name}.json`);
  writeFileSync(tokenizerModel, JSON.stringify(json));
  return createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel, eodToken: '<end>' });
}

const special = { id: 0, content: '<end>', special: true };
const bytes = Array.from({ length: 256 }, (_, byte) => byte.toString(16).toUpperCase().padStart(2, '0'));
const byteTokenizers: Record<string, Tokenizer> = {
  GPT2BPETokenizer: await createTokenizer({ type: 'GPT2BPETokenizer' }),
  ByteLevelTokenizer: await createTokenizer({ type: 'ByteLevelTokenizer' }),
  'byte-level tokenizer.json': await fromJson(
    'byte-level',
    await trainByteLevelBpe({
      texts,
      vocabularySize: 290,
      minFrequency: 1,
      specialTokens: ['<end>'],
    }),
  ),
};
const otherTokenizers: Record<string, Tokenizer> = {
  'byte-fallback tokenizer.json': await fromJson('byte-fallback', {
    model: {
      type: 'BPE',
      byte_fallback: true,
      merges: [],
      vocab: Object.fromEntries(['<end>', ...bytes.map((hex) => `<0x${hex}>`), '字'].map((t, id) => [t, id])),
    },
    added_tokens: [special],
    decoder: { type: 'ByteFallback' },
  }),
  'WordPiece tokenizer.json': await fromJson('word-piece', {
    ...(await trainWordPiece({ texts, vocabularySize: 120, additionalSpecialTokens: ['<end>'] })),
  }),
};
const tokenizers = Object.entries({ ...byteTokenizers, ...otherTokenizers });

const cases = Object.entries(byteTokenizers).flatMap(([name, tokenizer]) =>
  texts.map((text) => ({ name, tokenizer, text })),
);

it.each(cases)('$name replaces what a split leaves of a character of $text', ({ tokenizer, text }) => {
  const ids = Array.from(tokenizer.encode(text));
  expect(tokenizer.decode(ids)).toBe(text);
  for (let split = 0; split <= ids.length; split++) {
    const left = tokenizer.decode(ids.slice(0, split));
    const right = tokenizer.decode(ids.slice(split));
    if (left + right === text) continue;
    // an incomplete byte sequence at the start becomes one U+FFFD, and each further byte of it becomes one
    // more U+FFFD
    expect(left.at(-1)).toBe('\ufffd');
    expect(right).toMatch(/^\ufffd{1,3}/u);
    const before = left.slice(0, -1);
    const after = right.replace(/^\ufffd+/u, '');
    expect(text.startsWith(before) && text.endsWith(after)).toBe(true);
    expect([...text.slice(before.length, text.length - after.length)]).toHaveLength(1);
  }
});

it.each(tokenizers)('%s decodes without a memory of other texts', (_name, tokenizer) => {
  const ids = texts.flatMap((text) => Array.from(tokenizer.encode(text)));
  const part = fc
    .tuple(fc.nat(ids.length), fc.nat(6))
    .map(([from, length]) => ids.slice(from, from + length));
  const first = new Map<string, string>();
  fc.assert(
    fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
      for (const tokens of parts) {
        const text = tokenizer.decode(tokens);
        const key = tokens.join(' ');
        if (!first.has(key)) first.set(key, text);
        expect(text).toBe(first.get(key));
      }
    }),
    { numRuns: 300 },
  );
});

describe('decode of a partial character', () => {
  it.each(Object.entries(byteTokenizers))(
    'of %s is as in Python, and leaves nothing behind',
    (_n, tokenizer) => {
      const start = Array.from(tokenizer.encode('打')).slice(0, 1);
      expect(tokenizer.decode(start)).toBe(tokenizer.encode('打').length === 1 ? '打' : '\ufffd');
      expect(tokenizer.decode(tokenizer.encode('abc'))).toBe('abc');
    },
  );
});

it('decodes sequences of a dataset, whatever the type of its elements', async () => {
  const asNumbers = await createTokenizer({ type: 'NullTokenizer', vocabSize: 60_000 });
  const all: Record<string, Tokenizer> = { ...byteTokenizers, null: asNumbers };
  for (const [name, tokenizer] of Object.entries(all)) {
    const text = name === 'null' ? '7 0 59999' : texts[0]!;
    const ids = Array.from(tokenizer.encode(text));
    // the array types that a dataset returns for its dtypes
    const sequences = [
      BigInt64Array.from(ids, BigInt),
      Uint16Array.from(ids),
      Int32Array.from(ids),
      Float64Array.from(ids),
    ];
    for (const sequence of sequences) {
      expect(tokenizer.decode(sequence)).toBe(text);
    }
  }
});
