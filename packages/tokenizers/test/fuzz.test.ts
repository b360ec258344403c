import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MtlError } from '@mtl/errors';
import { mutateBytes, mutateJson, Random } from '@mtl/tooling/mutations';
import { afterAll, describe, expect, it } from 'vitest';
import type { TokenizerJson } from '../src/check-tokenizer-json.js';
import { createTokenizer, trainByteLevelBpe, trainWordPiece } from '../src/index.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-tokenizers-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const interesting = new URL('../fixtures/fuzz/', import.meta.url);
const probe = 'low lower lowest, naïve 你好 😀 <|endoftext|> [CLS]';

/** Runs a user's operation; the outcome must be a result or a coded error. Returns the code, or 'works'. */
async function outcome(run: () => unknown): Promise<string> {
  try {
    await run();
    return 'works';
  } catch (error) {
    if (MtlError.isInstance(error)) return error.code;
    throw error;
  }
}

async function useTokenizer(path: string): Promise<void> {
  const tokenizer = await createTokenizer({
    type: 'HuggingFaceTokenizer',
    tokenizerModel: path,
    eodToken: undefined,
  });
  const ids = tokenizer.encode(probe);
  tokenizer.decode(ids);
}

describe('mutated tokenizer.json files', () => {
  const path = join(directory, 'tokenizer.json');
  const texts = ['low lower lowest', 'new newer newest'];
  const train = {
    bpe: () => trainByteLevelBpe({ texts, vocabularySize: 280, minFrequency: 1 }),
    wordPiece: () => trainWordPiece({ texts, vocabularySize: 40, minFrequency: 1 }),
    unigram: async () => unigram,
  };

  it.each(Object.keys(train) as (keyof typeof train)[])(
    '%s: work or raise a coded error, in no time',
    async (kind) => {
      const json = Buffer.from(JSON.stringify(await train[kind]()));
      const random = new Random(kind);
      const codes = new Map<string, number>();
      for (let i = 0; i < 300; i++) {
        writeFileSync(path, mutateJson(json, random));
        const before = process.cpuUsage();
        const code = await outcome(() => useTokenizer(path));
        // A tokenizer this small answers in milliseconds of processor time, on a busy machine too; seconds
        // would mean an endless loop.
        const { user, system } = process.cpuUsage(before);
        expect((user + system) / 1000).toBeLessThan(5000);
        codes.set(code, (codes.get(code) ?? 0) + 1);
      }
      expect([...codes.keys()].every((code) => code === 'works' || code === 'MTL_DATA_TOKENIZER')).toBe(true);
      expect(codes.get('works')).toBeGreaterThan(10);
      expect(codes.get('MTL_DATA_TOKENIZER')).toBeGreaterThan(10);
    },
  );

  it('nested without end: a coded error', async () => {
    for (const part of ['normalizer', 'pre_tokenizer', 'x']) {
      const deep = `${'{"type":"Sequence","normalizers":['.repeat(50_000)}${']}'.repeat(50_000)}`;
      writeFileSync(path, `{"model":{"type":"BPE","vocab":{"</s>":0},"merges":[]},"${part}":${deep}}`);
      expect(await outcome(() => useTokenizer(path))).toMatch(/^(works|MTL_DATA_TOKENIZER)$/);
    }
  });

  it('as bytes: work or raise a coded error', async () => {
    const json = Buffer.from(JSON.stringify(await train.bpe()));
    const random = new Random('bytes');
    for (let i = 0; i < 150; i++) {
      writeFileSync(path, mutateBytes(json, random));
      expect(await outcome(() => useTokenizer(path))).toMatch(/^(works|MTL_DATA_TOKENIZER)$/);
    }
  });

  it.each(readdirSync(interesting).filter((name) => name.endsWith('.json')))(
    '%s raises a coded error',
    async (name) => {
      writeFileSync(path, readFileSync(new URL(name, interesting)));
      expect(await outcome(() => useTokenizer(path))).toBe('MTL_DATA_TOKENIZER');
    },
  );
});

const unigram: TokenizerJson = {
  version: '1.0',
  added_tokens: [
    { id: 0, content: '<unk>', special: true },
    { id: 1, content: '</s>', special: true },
  ],
  normalizer: { type: 'Sequence', normalizers: [{ type: 'NFKC' }, { type: 'Lowercase' }] },
  pre_tokenizer: { type: 'Metaspace', replacement: '▁', add_prefix_space: true, prepend_scheme: 'always' },
  post_processor: null,
  decoder: { type: 'Metaspace', replacement: '▁', add_prefix_space: true, prepend_scheme: 'always' },
  model: {
    type: 'Unigram',
    vocab: [
      ['<unk>', 0],
      ['</s>', 0],
      ['▁low', -2],
      ['er', -3],
      ['est', -3.5],
      ['▁', -4],
      ['l', -5],
      ['o', -5],
      ['w', -5],
    ],
    unk_id: 0,
  },
};
