import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MtlError } from '@mtl/errors';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createTokenizer,
  IndexedDataset,
  IndexedDatasetWriter,
  openGptDataset,
  readDocuments,
  trainByteLevelBpe,
  trainWordPiece,
  verifyIndexedDataset,
} from '../src/index.js';
import { RandomState } from '../src/random/random-state.js';
import type { TokenizerJson } from '../src/tokenizers/check-tokenizer-json.js';
import { mutateBytes, mutateJson } from './mutate.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const interesting = new URL('../fixtures/fuzz/', import.meta.url);
const probe = 'low lower lowest, naïve 你好 😀 <|endoftext|> [CLS]';

/**
 * Runs what a user would; whatever happens must be a result or a coded error. Returns the code, or 'works'.
 */
async function outcome(run: () => unknown): Promise<string> {
  try {
    await run();
    return 'works';
  } catch (error) {
    if (MtlError.isInstance(error)) return error.code;
    throw error;
  }
}

function useIndex(prefix: string): void {
  using dataset = IndexedDataset.open(prefix);
  for (let sequence = 0; sequence < dataset.numSequences; sequence++) dataset.sequence(sequence);
  for (let document = 0; document < dataset.numDocuments; document++) dataset.documentSequences(document);
  verifyIndexedDataset({ prefix, vocabularySize: 1000 });
  const options = {
    prefix,
    split: 'train',
    sequenceLength: 4,
    seed: 1,
    numSamples: 20,
    cacheDirectory: false,
  } as const;
  using samples = openGptDataset(options);
  for (let sample = 0; sample < Math.min(20, samples.length); sample++) samples.sample(sample);
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

describe('mutated .idx files', () => {
  const prefix = join(directory, 'dataset');
  let valid: Uint8Array;
  beforeAll(() => {
    const writer = new IndexedDatasetWriter({ prefix, dtype: 'uint16' });
    for (const length of [5, 3, 0, 7, 4]) {
      if (length > 0) writer.addSequence(Array.from({ length }, (_, i) => i));
      writer.endDocument();
    }
    writer.finish();
    valid = readFileSync(`${prefix}.idx`);
  });

  it('work or raise a coded error, without wild allocations', async () => {
    const random = new RandomState(20240601);
    const before = process.memoryUsage().arrayBuffers;
    const codes = new Map<string, number>();
    for (let i = 0; i < 600; i++) {
      writeFileSync(`${prefix}.idx`, mutateBytes(valid, random));
      const code = await outcome(() => useIndex(prefix));
      codes.set(code, (codes.get(code) ?? 0) + 1);
    }
    expect([...codes.keys()].sort()).toEqual(expect.arrayContaining(['MTL_DATA_INDEXED_DATASET']));
    expect(codes.get('MTL_DATA_INDEXED_DATASET')).toBeGreaterThan(400);
    // The files hold some hundred bytes: even uncollected garbage of all rounds stays far below this.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(256 * 2 ** 20);
  });

  it.each(readdirSync(interesting).filter((name) => name.endsWith('.idx')))(
    '%s raises a coded error',
    async (name) => {
      writeFileSync(`${prefix}.idx`, readFileSync(new URL(name, interesting)));
      expect(await outcome(() => useIndex(prefix))).toMatch(/^MTL_DATA_/);
    },
  );
});

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
      const json = await train[kind]();
      const random = new RandomState(7);
      const codes = new Map<string, number>();
      for (let i = 0; i < 300; i++) {
        writeFileSync(path, JSON.stringify(mutateJson(json, random)));
        const before = process.cpuUsage();
        const code = await outcome(() => useTokenizer(path));
        // A tokenizer this small answers in milliseconds of processor time, whatever else the machine does;
        // seconds would be a loop gone wild.
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
    const json = new TextEncoder().encode(JSON.stringify(await train.bpe()));
    const random = new RandomState(11);
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

describe('mutated corpora', () => {
  it('work or raise a coded error', async () => {
    const lines = Array.from({ length: 20 }, (_, i) => `{"text":"document ${i} ✓","n":${i}}\n`).join('');
    const random = new RandomState(5);
    const path = join(directory, 'corpus.jsonl');
    for (let i = 0; i < 300; i++) {
      writeFileSync(path, mutateBytes(new TextEncoder().encode(lines), random));
      const run = async () => {
        for await (const document of readDocuments({ path })) expect(typeof document).toBe('string');
      };
      expect(await outcome(run)).toMatch(/^(works|MTL_DATA_CORPUS)$/);
    }
  });
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
