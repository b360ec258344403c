import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MaskedTokenBatch } from '@mtl/layout';
import { createTokenizer, type Tokenizer } from '@mtl/tokenizers';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  buildBertDatasets,
  createBatchLoader,
  IndexedDatasetWriter,
  openBertDataset,
  parseDataPath,
  type SampleDataset,
} from '../index.js';
import { maskingVocabulary } from '../internal/index.js';
import { RandomState } from '../random/random-state.js';
import type { IndexCacheEvent } from '../samples/dataset-part.js';
import type { BertDatasetOptions } from './bert-dataset.js';
import { buildSentenceMapping } from './sentence-mapping.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];
const pieces = Array.from({ length: 90 }, (_, i) => (i % 3 === 2 ? `##piece${i}` : `word${i}`));
const firstPiece = special.length;
let tokenizer: Tokenizer;

function vocabulary(name: string, tokens: readonly string[]): Promise<Tokenizer> {
  const vocabFile = join(directory, name);
  writeFileSync(vocabFile, `${tokens.join('\n')}\n`);
  return createTokenizer({ type: 'BertWordPieceLowerCase', vocabFile });
}

/**
 * Writes documents of random tokens and returns the prefix. `documents` contains the lengths of each
 * document's sentences.
 */
function corpus(name: string, documents: readonly (readonly number[])[]): string {
  const prefix = join(directory, name);
  const writer = new IndexedDatasetWriter({ prefix, dtype: 'uint16' });
  const random = new RandomState(7);
  for (const document of documents) {
    for (const length of document) {
      writer.addSequence(Array.from({ length }, () => firstPiece + random.interval(pieces.length - 1)));
    }
    writer.endDocument();
  }
  writer.finish();
  return prefix;
}

const random = new RandomState(3);
const someDocuments = (count: number) =>
  Array.from({ length: count }, () =>
    Array.from({ length: 2 + random.interval(8) }, () => 1 + random.interval(20)),
  );

let prefix: string;
let base: BertDatasetOptions;
beforeAll(async () => {
  tokenizer = await vocabulary('vocab.txt', [...special, ...pieces]);
  prefix = corpus('corpus', someDocuments(60));
  base = { prefix, split: 'train', sequenceLength: 48, seed: 11, tokenizer, cacheDirectory: false };
});

const throwsCode = (run: () => unknown, code: string, what: RegExp) =>
  expect(run).toThrow(
    expect.objectContaining({ code, message: expect.stringMatching(what), remedy: expect.any(String) }),
  );

describe('BertDataset', () => {
  it('gives batches of the samples, sequence first, with the masked positions gathered', () => {
    using dataset = openBertDataset({ ...base, numSamples: 100 });
    const samples = [5, 0, 71, 5];
    const batch = dataset.createBatch(4);
    for (const [row, sample] of samples.entries()) dataset.fillRow({ sample, batch, row });
    const { tokens, tokenTypes, lengths, numMasked, ...masked } = dataset.finishBatch(batch);
    const found = new Map<number, number>();
    for (let i = 0; i < masked.maskedPositions.length; i++) {
      expect(masked.maskedWeights[i]).toBe(i < numMasked ? 1 : 0);
      if (i < numMasked) found.set(masked.maskedPositions[i]!, masked.maskedLabels[i]!);
    }
    expect(found.size).toBe(numMasked);
    for (const [row, sample] of samples.entries()) {
      const expected = dataset.megatronSample(sample);
      const column = (values: Int32Array) => Array.from({ length: 48 }, (_, s) => values[s * 4 + row]);
      expect(column(tokens)).toEqual([...expected.text]);
      expect(column(tokenTypes)).toEqual([...expected.types]);
      expect(lengths[row]).toBe(expected.paddingMask.reduce((sum, value) => sum + value));
      expect(masked.sentenceOrderLabels![row]).toBe(Number(expected.isRandom));
      for (let s = 0; s < 48; s++) {
        expect(found.get(s * 4 + row) ?? -1).toBe(expected.labels[s]);
        found.delete(s * 4 + row);
      }
    }
    expect(found.size).toBe(0);
    expect([...masked.sampleNumbers]).toEqual(samples);
  });

  it('gives few shapes', () => {
    using dataset = openBertDataset({ ...base, numSamples: 400, shortSequenceProbability: 0.5 });
    const rooms = new Set<number>();
    for (let first = 0; first + 16 <= dataset.length; first += 16) {
      const batch = dataset.createBatch(16);
      for (let row = 0; row < 16; row++) dataset.fillRow({ sample: first + row, batch, row });
      const { maskedPositions, maskedLabels, maskedWeights, numMasked } = dataset.finishBatch(batch);
      expect(maskedPositions.length).toBeGreaterThanOrEqual(numMasked);
      expect([maskedLabels.length, maskedWeights.length]).toEqual([
        maskedPositions.length,
        maskedPositions.length,
      ]);
      // a batch has 16 rows with at most floor(0.15 x 45) = 6 masked tokens each; an eighth of the total of
      // 96 is rounded up to 16
      expect(maskedPositions.length % 16).toBe(0);
      expect(maskedPositions.length - numMasked).toBeLessThan(16);
      rooms.add(maskedPositions.length);
    }
    expect(rooms.size).toBeGreaterThan(1);
    expect(rooms.size).toBeLessThanOrEqual(6);
  });

  it('has neither labels nor second parts without sentence pairs', () => {
    using dataset = openBertDataset({ ...base, sentencePairs: false });
    for (let sample = 0; sample < dataset.length; sample++) {
      const { sentenceOrderLabels, tokenTypes } = dataset.sample(sample);
      expect(sentenceOrderLabels).toBeUndefined();
      expect(tokenTypes.every((type) => type === 0)).toBe(true);
    }
  });

  it('keeps what a masked language model relies on, whatever the documents', () => {
    const documents = fc.array(fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 2, maxLength: 8 }), {
      minLength: 1,
      maxLength: 8,
    });
    const length = fc.integer({ min: 5, max: 70 });
    fc.assert(
      fc.property(documents, length, fc.nat(), fc.boolean(), (sizes, sequenceLength, seed, wholeWords) => {
        using dataset = openBertDataset({
          ...base,
          prefix: corpus('any', sizes),
          sequenceLength,
          seed,
          masking: { wholeWords },
        });
        for (let sample = 0; sample < dataset.length; sample++)
          checkSample(dataset.sample(sample), wholeWords);
      }),
      { numRuns: 60 },
    );
  });

  function checkSample(batch: MaskedTokenBatch, wholeWords: boolean): void {
    const { tokens, tokenTypes, lengths, maskedPositions, maskedLabels, numMasked } = batch;
    const { continues } = maskingVocabulary(tokenizer);
    const length = lengths[0]!;
    const original = tokens.slice();
    const isMasked = new Uint8Array(tokens.length);
    // a single expectation covers all positions, because one expectation per position would take most of the
    // test's time
    const wrong: string[] = [];
    const check = (isRight: boolean, what: string): void => void (isRight || wrong.push(what));
    for (let i = 0; i < numMasked; i++) {
      check(
        i === 0 || maskedPositions[i]! > maskedPositions[i - 1]!,
        `masked position ${i} is not ascending`,
      );
      original[maskedPositions[i]!] = maskedLabels[i]!;
      isMasked[maskedPositions[i]!] = 1;
    }
    expect(numMasked).toBeLessThanOrEqual(Math.max(1, 0.15 * length + 0.5));
    // the format is [CLS] A [SEP] B [SEP], without further special tokens and without an empty segment
    expect([original[0], original[length - 1]]).toEqual([2, 3]);
    const separators = [...original.keys()].filter((i) => original[i] === 3);
    expect(separators).toHaveLength(2);
    expect(separators[0]).toBeGreaterThan(1);
    expect(separators[1]! - separators[0]!).toBeGreaterThan(1);
    for (let i = 0; i < tokens.length; i++) {
      check(tokenTypes[i] === (i > separators[0]! && i < length ? 1 : 0), `type of token ${i}`);
      if (i >= length) check(original[i] === 0, `padding ${i}`);
      else if (i > 0 && !separators.includes(i)) check(original[i]! >= firstPiece, `token ${i} is special`);
      if (i < 2 || i >= length || separators.includes(i) || separators.includes(i - 1)) continue;
      if (wholeWords && continues[original[i]!] === 1)
        check(isMasked[i] === isMasked[i - 1], `token ${i} is masked otherwise than its word`);
    }
    expect(wrong).toEqual([]);
  }

  it('masks 80 % of what it chooses, replaces 10 %, and swaps half of the pairs', () => {
    using dataset = openBertDataset({ ...base, sequenceLength: 128, numSamples: 3000 });
    let masked = 0;
    let kept = 0;
    let swapped = 0;
    let all = 0;
    for (let sample = 0; sample < dataset.length; sample++) {
      const batch = dataset.sample(sample);
      for (let i = 0; i < batch.numMasked; i++) {
        const token = batch.tokens[batch.maskedPositions[i]!]!;
        if (token === 4) masked++;
        if (token === batch.maskedLabels[i]) kept++;
      }
      all += batch.numMasked;
      swapped += batch.sentenceOrderLabels![0]!;
    }
    // The fixed seed gives about 30,000 tokens and 3,000 samples, for which three standard deviations are
    // 0.007 and 0.028.
    expect(all).toBeGreaterThan(20_000);
    expect(Math.abs(masked / all - (0.8 + 0.1 / tokenizer.vocabularySize))).toBeLessThan(0.008);
    expect(Math.abs(kept / all - (0.1 + 0.1 / tokenizer.vocabularySize))).toBeLessThan(0.008);
    expect(Math.abs(swapped / dataset.length - 0.5)).toBeLessThan(0.028);
  });

  it('splits by documents', () => {
    const listSentences = (split: 'train' | 'valid' | 'test') => {
      using dataset = openBertDataset({ ...base, split, splitWeights: '70,20,10' });
      return new Set([...dataset.description.mapping].filter((_, i) => i % 3 === 0));
    };
    const parts = [listSentences('train'), listSentences('valid'), listSentences('test')];
    const all = parts.flatMap((part) => [...part]);
    expect(new Set(all).size).toBe(all.length);
    expect(Math.max(...parts[0]!)).toBeLessThan(Math.min(...parts[1]!));
  });

  it('tells which document a sample was read from', () => {
    const name = join(directory, 'documents');
    const writer = new IndexedDatasetWriter({ prefix: name, dtype: 'uint16' });
    // no two documents have a token in common, so a token identifies its document. Some documents are empty
    for (let document = 0; document < 30; document++) {
      const numSentences = document % 4 === 3 ? 0 : 2 + (document % 5);
      for (let sentence = 0; sentence < numSentences; sentence++)
        writer.addSequence(Array.from({ length: 3 + sentence }, () => firstPiece + document));
      writer.endDocument();
    }
    writer.finish();
    using dataset = openBertDataset({ ...base, prefix: name });
    for (let sample = 0; sample < dataset.length; sample++) {
      const { text, labels, paddingMask } = dataset.megatronSample(sample);
      // unmasked tokens, without padding and special tokens
      const own = text.filter(
        (token, at) => labels[at] === -1 && paddingMask[at] === 1 && token >= firstPiece,
      );
      const { source, documents } = dataset.listDocuments(sample);
      expect(source).toBe(name);
      expect(documents.map((document) => document + firstPiece)).toEqual([...new Set(own)]);
    }
  });

  it('tells how long samples are without reading them, whatever the documents', () => {
    // some sentences have no tokens, so a segment may be empty
    const documents = fc.array(fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 2, maxLength: 8 }), {
      minLength: 1,
      maxLength: 8,
    });
    const length = fc.integer({ min: 5, max: 70 });
    fc.assert(
      fc.property(documents, length, fc.nat(), fc.boolean(), (sizes, sequenceLength, seed, sentencePairs) => {
        fc.pre(sizes.flat().some((size) => size > 0));
        const options = { ...base, prefix: corpus('lengths', sizes), sequenceLength, seed, sentencePairs };
        using dataset = openBertDataset(options);
        for (let sample = 0; sample < dataset.length; sample++)
          expect(dataset.measureLength(sample)).toBe(dataset.sample(sample).lengths[0]);
      }),
      { numRuns: 60 },
    );
    // if there were room for only a single token, truncation would leave one segment empty
    expect(() => openBertDataset({ ...base, sequenceLength: 4 })).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_SEQUENCE_LENGTH' }),
    );
    const gone = corpus('gone', someDocuments(20));
    using dataset = openBertDataset({ ...base, prefix: gone });
    const expected = dataset.sample(3).lengths[0];
    using unread = openBertDataset({ ...base, prefix: gone });
    truncateSync(`${gone}.bin`, 0);
    expect(unread.measureLength(3)).toBe(expected);
    expect(() => unread.sample(3)).toThrow();
    expect(() => unread.measureLength(unread.length)).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_OUT_OF_RANGE' }),
    );
  });

  it('draws the samples of a blend from each dataset, known by their numbers in the blend', () => {
    const other = corpus('other', someDocuments(30));
    const options = {
      ...base,
      blend: parseDataPath(['2', prefix, '1', other]),
      numSamples: { train: 60, valid: 0, test: undefined },
      splitWeights: '90,10,0',
      dataCachePath: false as const,
    };
    const { train, valid, test } = buildBertDatasets(options);
    expect([train!.length, valid, test]).toEqual([60, undefined, undefined]);
    const batch = train!.sample(59);
    expect([...batch.sampleNumbers]).toEqual([59]);
    expect(batch.numMasked).toBeGreaterThan(0);
    const lengths = Array.from({ length: 60 }, (_, sample) => train!.sample(sample).lengths[0]);
    expect(lengths.map((_, sample) => train!.measureLength!(sample))).toEqual(lengths);
    expect(() => train!.measureLength!(60)).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_OUT_OF_RANGE' }),
    );
    train!.close();
  });
});

describe('cached mappings', () => {
  const events: IndexCacheEvent[] = [];
  const onCacheEvent = (event: IndexCacheEvent) => events.push(event);

  it('are named as Megatron names them, found again, and built again when broken', () => {
    const cacheDirectory = join(directory, 'cache');
    const open = () => {
      using dataset = openBertDataset({ ...base, numSamples: 20, cacheDirectory, onCacheEvent });
      return dataset.description.mapping.slice();
    };
    const built = open();
    const names = readdirSync(cacheDirectory).sort();
    const text = readFileSync(join(cacheDirectory, names[0]!), 'utf8');
    const md5 = createHash('md5').update(text).digest('hex');
    expect(names).toEqual(
      ['description.txt', 'sample_index.npy'].map((file) => `${md5}-BERTMaskedWordPieceDataset-${file}`),
    );
    expect(open()).toEqual(built);
    const npy = join(cacheDirectory, names[1]!);
    const bytes = readFileSync(npy);
    truncateSync(npy, bytes.length - 4);
    expect(open()).toEqual(built);
    // This row's end is changed to a sentence of the next document.
    const crossing = Buffer.from(bytes);
    crossing.writeUInt32LE(crossing.readUInt32LE(128 + 4) + 400, 128 + 4);
    writeFileSync(npy, crossing);
    expect(open()).toEqual(built);
    expect(open()).toEqual(built);
    expect(events.map(({ kind }) => kind)).toEqual(['built', 'loaded', 'rebuilt', 'rebuilt', 'loaded']);
    expect(events[3]!.reason).toMatch(/row 0: sentences/);
  });
});

describe('loading', () => {
  const sampler = { kind: 'single', microBatchSize: 4, shareOfBatch: { index: 0, count: 2 } } as const;

  async function take<B>(loader: AsyncIterable<B>): Promise<B[]> {
    const batches: B[] = [];
    for await (const batch of loader) batches.push(batch);
    return batches;
  }

  it.each(['worker', 'main'] as const)(
    'gives the batches of each rank, resumed or not (%s thread)',
    async (thread) => {
      using dataset = openBertDataset({ ...base, numSamples: 64 });
      const options = { dataset, thread } as const;
      const totalSamples = 64;
      const whole = await take(createBatchLoader({ ...options, sampler: { ...sampler, totalSamples } }));
      expect(whole).toHaveLength(8);
      const second = await take(
        createBatchLoader({
          ...options,
          sampler: { ...sampler, totalSamples, shareOfBatch: { index: 1, count: 2 } },
        }),
      );
      for (const [i, batch] of second.entries()) {
        expect([...batch.sampleNumbers]).toEqual([4, 5, 6, 7].map((sample) => 8 * i + sample));
      }
      const wide = await take(
        createBatchLoader({ ...options, sampler: { kind: 'single', microBatchSize: 8, totalSamples } }),
      );
      // every rank layout reads the same samples
      const column = ({ tokens, batchSize }: MaskedTokenBatch, row: number) =>
        Array.from({ length: 48 }, (_, s) => tokens[s * batchSize + row]);
      expect(column(wide[3]!, 5)).toEqual(column(second[3]!, 1));
      const resumed = await take(
        createBatchLoader({ ...options, sampler: { ...sampler, totalSamples, consumedSamples: 24 } }),
      );
      expect(resumed).toEqual(whole.slice(3));
    },
  );

  it('reads blends in a thread', async () => {
    const options = {
      ...base,
      blend: parseDataPath(['1', prefix, '1', prefix]),
      numSamples: { train: 16, valid: 0, test: 0 },
      dataCachePath: false as const,
    };
    const one = { kind: 'single', microBatchSize: 8 } as const;
    const check = async (dataset: SampleDataset<MaskedTokenBatch>) => {
      const [inThread, here] = await Promise.all(
        (['worker', 'main'] as const).map((thread) =>
          take(createBatchLoader({ dataset, sampler: one, thread })),
        ),
      );
      expect(inThread).toEqual(here);
      expect(inThread).toHaveLength(2);
      dataset.close();
    };
    await check(buildBertDatasets(options).train!);
  });
});

describe('errors', () => {
  it('names a corpus without sentences, and what to do', () => {
    const documents = corpus('documents', [[30], [40], [25]]);
    const open = (options: Partial<BertDatasetOptions>) => () => openBertDataset({ ...base, ...options });
    throwsCode(
      open({ prefix: documents }),
      'MTL_DATA_NO_SENTENCES',
      /documents \(train\): none of 3 documents/,
    );
    throwsCode(
      open({ prefix: documents, numSamples: 10 }),
      'MTL_DATA_NO_SENTENCES',
      /3 have fewer than 2 sentences/,
    );
    expect(open({ prefix: documents })).toThrow(
      expect.objectContaining({ remedy: expect.stringContaining('--bert-no-binary-head') }),
    );
    const long = corpus('long', [
      [600, 2],
      [700, 9, 5],
    ]);
    throwsCode(open({ prefix: long }), 'MTL_DATA_NO_SENTENCES', /2 have a sentence longer than 512/);
    throwsCode(
      open({ split: 'test', splitWeights: '1,1,0' }),
      'MTL_DATA_NO_SENTENCES',
      /none of 0 documents/,
    );
    // for samples without pairs, a document with a single sentence of any length is enough
    openBertDataset({ ...base, prefix: corpus('single', [[600]]), sentencePairs: false }).close();
  });

  it('counts the documents that give no samples', () => {
    const mixed = corpus('mixed', [[5, 6], [9], [], [4, 600, 3], [700], [1, 2, 3]]);
    using pairs = openBertDataset({ ...base, prefix: mixed });
    expect(pairs.description.documents).toEqual({
      numDocuments: 6,
      numWithFewSentences: 3,
      numWithLongSentence: 1,
    });
    using single = openBertDataset({ ...base, prefix: mixed, sentencePairs: false });
    expect(single.description.documents).toEqual({
      numDocuments: 6,
      numWithFewSentences: 1,
      numWithLongSentence: 1,
    });
  });

  it('names the special token that a vocabulary lacks', async () => {
    for (const missing of ['[MASK]', '[CLS]', '[PAD]']) {
      const lacking = await vocabulary(
        'lacking.txt',
        [...special, ...pieces].filter((token) => token !== missing),
      );
      throwsCode(
        () => openBertDataset({ ...base, tokenizer: lacking }),
        'MTL_DATA_SPECIAL_TOKEN',
        new RegExp(`no token \\${missing}`),
      );
    }
    const bytes = await createTokenizer({ type: 'ByteLevelTokenizer' });
    throwsCode(
      () => openBertDataset({ ...base, tokenizer: bytes }),
      'MTL_DATA_SPECIAL_TOKEN',
      /ByteLevelTokenizer has no list of tokens/,
    );
  });

  it('names the place of a token beyond the vocabulary', async () => {
    const small = await vocabulary('small.txt', [...special, ...pieces.slice(0, 89)]);
    using dataset = openBertDataset({ ...base, tokenizer: small });
    const all = () => {
      for (let sample = 0; sample < dataset.length; sample++) dataset.sample(sample);
    };
    throwsCode(all, 'MTL_DATA_TOKEN_OUT_OF_VOCABULARY', /sequence \d+, position \d+ holds token 94/);
  });

  it('refuses settings that cannot work', () => {
    const refused = (options: Partial<BertDatasetOptions>, code: string) =>
      expect(() => openBertDataset({ ...base, ...options })).toThrow(
        expect.objectContaining({ code, exitCode: 2 }),
      );
    refused({ sequenceLength: 4 }, 'MTL_DATA_SEQUENCE_LENGTH');
    refused({ shortSequenceProbability: 1.5 }, 'MTL_DATA_MASKING');
    refused({ masking: { probability: 0 } }, 'MTL_DATA_MASKING');
    refused({ masking: { maximumNgram: 0 } }, 'MTL_DATA_MASKING');
    refused({ seed: -1 }, 'MTL_DATA_SEED');
    using dataset = openBertDataset(base);
    expect(() => dataset.sample(dataset.length)).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_OUT_OF_RANGE' }),
    );
  });
});

describe('buildSentenceMapping', () => {
  it('covers every sentence of the usable documents once an epoch, in samples as long as they should be', () => {
    const documents = fc.array(fc.array(fc.integer({ min: 1, max: 540 }), { maxLength: 12 }), {
      minLength: 1,
      maxLength: 20,
    });
    const settings = fc.record({
      maximumLength: fc.integer({ min: 2, max: 300 }),
      shortSequenceProbability: fc.constantFrom(0, 0.1, 0.5, 1),
      seed: fc.nat(),
      minimumSentences: fc.constantFrom(1, 2),
    });
    fc.assert(
      fc.property(documents, settings, (sizes, options) => {
        const usable = sizes.filter(
          (document) =>
            document.length >= options.minimumSentences &&
            (document.length === 1 || document.every((size) => size <= 512)),
        );
        const documentIndices = [0];
        for (const document of sizes) documentIndices.push(documentIndices.at(-1)! + document.length);
        const build = () =>
          buildSentenceMapping({ ...options, documentIndices, sizes: Int32Array.from(sizes.flat()) });
        if (usable.length === 0) {
          expect(build).toThrow(expect.objectContaining({ code: 'MTL_DATA_NO_SENTENCES' }));
          return;
        }
        const rows = build();
        const seen = new Uint8Array(sizes.flat().length);
        for (let row = 0; row < rows.length; row += 3) {
          expect(rows[row + 1]! - rows[row]!).toBeGreaterThanOrEqual(options.minimumSentences);
          expect(rows[row + 2]).toBeLessThanOrEqual(options.maximumLength);
          for (let sentence = rows[row]!; sentence < rows[row + 1]!; sentence++) seen[sentence]!++;
        }
        expect(seen.reduce((sum, count) => sum + count, 0)).toBe(usable.flat().length);
        expect(Math.max(...seen)).toBe(1);
      }),
    );
  });
});
