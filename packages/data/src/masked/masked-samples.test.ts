import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { createTokenizer, type Tokenizer } from '@mtl/tokenizers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { IndexedDatasetWriter, openBertDataset } from '../index.js';
import { pythonJson } from '../python/json.js';
import { bertDatasetIdentifiers } from './bert-dataset.js';
import type { MaskingOptions } from './masking.js';
import { buildSentenceMapping } from './sentence-mapping.js';

// Fixtures: tooling/fixtures/make-masked-fixtures.py.

interface MappingFixture {
  documentIndices: number[];
  sizes: number[];
  numSamples: number | null;
  maximumLength: number;
  shortSequenceProbability: number;
  seed: number;
  minimumSentences: number;
  numRows: number;
  rows: string;
}

interface SampleFixture {
  sequenceLength: number;
  seed: number;
  shortSequenceProbability: number;
  sentencePairs: boolean;
  masking: MaskingOptions;
  numSamples: number;
  first: Record<string, number[] | number>;
  samples: string[];
  all: string;
}

const fixture = JSON.parse(
  gunzipSync(readFileSync(new URL('../../fixtures/masked-samples.json.gz', import.meta.url))).toString(),
) as {
  description: string;
  mappings: MappingFixture[];
  vocabulary: string[];
  documentIndices: number[];
  sizes: number[];
  tokens: number[];
  bert: SampleFixture[];
};

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
const prefix = join(directory, 'corpus');
let tokenizer: Tokenizer;

beforeAll(async () => {
  const writer = new IndexedDatasetWriter({ prefix, dtype: 'uint16' });
  let offset = 0;
  for (let document = 0; document + 1 < fixture.documentIndices.length; document++) {
    const end = fixture.documentIndices[document + 1]!;
    for (let sentence = fixture.documentIndices[document]!; sentence < end; sentence++) {
      const size = fixture.sizes[sentence]!;
      writer.addSequence(fixture.tokens.slice(offset, offset + size));
      offset += size;
    }
    writer.endDocument();
  }
  writer.finish();
  const vocabFile = join(directory, 'vocab.txt');
  writeFileSync(vocabFile, `${fixture.vocabulary.join('\n')}\n`);
  tokenizer = await createTokenizer({ type: 'BertWordPieceLowerCase', vocabFile });
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const md5 = (values: Int32Array | Uint32Array) =>
  createHash('md5')
    .update(Buffer.from(values.buffer, values.byteOffset, values.byteLength))
    .digest('hex');

/** Returns all values of a sample as one list, in the order of its fields. */
function flat(sample: object): number[] {
  return Object.values(sample).flatMap((field) =>
    ArrayBuffer.isView(field) ? [...(field as Int32Array)] : Number(field),
  );
}

/** The options for opening the complete corpus, from which every sample is drawn once. */
const whole = { prefix, split: 'train', numSamples: undefined, cacheDirectory: false } as const;

function expectSamples(
  { numSamples, samples, all }: SampleFixture,
  sampleAt: (index: number) => object,
): void {
  const values = Array.from({ length: numSamples }, (_, index) => flat(sampleAt(index)));
  samples.forEach((expected, index) => {
    expect(md5(Int32Array.from(values[index]!)), `sample ${index}`).toBe(expected);
  });
  expect(md5(Int32Array.from(values.flat()))).toBe(all);
}

const numbered = <T>(values: T[]) => values.map((value, i) => [i, value] as const);

describe('mappings of sentences to samples', () => {
  it('have fixtures of every kind', () => {
    const { mappings } = fixture;
    expect(mappings.length).toBeGreaterThan(30);
    expect(mappings.filter((f) => f.numSamples !== null && f.numRows > f.numSamples).length).toBeGreaterThan(
      3,
    );
    expect(mappings.filter((f) => f.minimumSentences === 1).length).toBeGreaterThan(3);
    expect(mappings.filter((f) => Math.max(...f.sizes) > 512).length).toBeGreaterThan(5);
    expect(mappings.filter((f) => f.shortSequenceProbability === 0).length).toBeGreaterThan(2);
  });

  it.each(numbered(fixture.mappings))('are bit for bit Megatron (case %i)', (_, f) => {
    const options = { ...f, sizes: Int32Array.from(f.sizes), numSamples: f.numSamples ?? undefined };
    const rows = buildSentenceMapping(options);
    expect(rows.length).toBe(3 * f.numRows);
    expect(md5(rows)).toBe(f.rows);
  });

  it('gives the worked example', () => {
    const rows = buildSentenceMapping({
      documentIndices: [0, 3, 5, 9],
      sizes: Int32Array.of(5, 6, 7, 8, 4, 3, 9, 2, 6),
      numSamples: 12,
      maximumLength: 20,
      shortSequenceProbability: 0.1,
      seed: 1234,
      minimumSentences: 2,
    });
    const expected = [
      [0, 3, 20],
      [5, 9, 20],
      [3, 5, 20],
      [3, 5, 20],
      [5, 9, 20],
      [0, 3, 20],
      [0, 3, 20],
      [5, 7, 6],
      [5, 9, 20],
      [3, 5, 20],
      [0, 3, 20],
      [7, 9, 20],
      [3, 5, 20],
    ];
    expect([...rows]).toEqual(expected.flat());
  });
});

describe('BERT samples', () => {
  it.each(numbered(fixture.bert))('are bit for bit Megatron (case %i)', (_, f) => {
    using dataset = openBertDataset({ ...f, ...whole, tokenizer });
    expect(dataset.length).toBe(f.numSamples);
    const { first } = f;
    const sample = dataset.megatronSample(0);
    expect(Object.keys(sample)).toEqual(Object.keys(first));
    expect([...sample.text]).toEqual(first.text);
    expect([...sample.labels]).toEqual(first.labels);
    expectSamples(f, (index) => dataset.megatronSample(index));
  });

  it('count a random replacement by [PAD] as padding, as Megatron', () => {
    using dataset = openBertDataset({ ...fixture.bert[7]!, ...whole, tokenizer });
    const replaced = Array.from({ length: dataset.length }, (_, index) =>
      dataset.megatronSample(index),
    ).filter(({ text, lossMask }) => text.some((token, i) => token === tokenizer.padId && lossMask[i] === 1));
    expect(replaced.length).toBeGreaterThan(0);
    for (const { text, paddingMask } of replaced) {
      expect([...paddingMask]).toEqual(Array.from(text, (token) => Number(token !== tokenizer.padId)));
    }
  });
});

describe('bertDatasetIdentifiers', () => {
  it('are written as Python writes them', () => {
    const identifiers = bertDatasetIdentifiers({
      prefix: 'corpus_text_sentence',
      split: 'train',
      splitWeights: '90,10,0',
      numSamples: 20,
      sequenceLength: 48,
      seed: 11,
      tokenizer,
      tokenizerIdentifiers: { class: 'x', vocab_size: '128' },
    });
    expect(pythonJson(identifiers)).toBe(fixture.description);
  });
});
