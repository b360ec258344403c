import { createHash } from 'node:crypto';
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { buildGptDatasets, IndexedDatasetWriter, openGptDataset, parseDataPath } from '../index.js';
import { documentsOfSamples } from '../internal/index.js';
import { openSampleDataset } from '../loading/open-sample-dataset.js';
import type { IndexCacheEvent } from './dataset-part.js';
import { GptDataset, type GptDatasetOptions } from './gpt-dataset.js';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** Writes documents of these lengths with tokens 0, 1, 2, ... */
function write(name: string, lengths: readonly number[], first = 0): string {
  const prefix = join(directory, name);
  const writer = new IndexedDatasetWriter({ prefix, dtype: 'uint16' });
  let next = first;
  for (const length of lengths) {
    writer.addSequence(Array.from({ length }, () => next++));
    writer.endDocument();
  }
  writer.finish();
  return prefix;
}

const base = { sequenceLength: 4, seed: 1234, split: 'train' } as const;

describe('GptDataset', () => {
  it.each([
    [
      undefined,
      [
        [4, 5, 6, 7, 8],
        [8, 9, 10, 11, 12],
        [12, 13, 14, 15, 16],
      ],
    ],
    [
      10,
      [
        [6, 7, 15, 16, 17],
        [10, 11, 12, 13, 14],
        [3, 4, 0, 1, 2],
      ],
    ],
  ])('reads the samples of the worked example for %s samples', (numSamples, expected) => {
    const prefix = write('golden', [5, 3, 7, 4]);
    using dataset = openGptDataset({ ...base, prefix, numSamples });
    expect([0, 1, 2].map((sample) => [...dataset.text(sample)])).toEqual(expected);
    const sample = dataset.sample(0);
    expect([...sample.tokens]).toEqual(expected[0]!.slice(0, 4));
    expect([...sample.labels]).toEqual(expected[0]!.slice(1));
    expect([...sample.lossMask]).toEqual([1, 1, 1, 1]);
    expect([...sample.positionIds]).toEqual([0, 1, 2, 3]);
    expect(sample.keyStart).toBeUndefined();
  });

  it('resets positions and attention after each end of document', () => {
    const prefix = join(directory, 'eod');
    const writer = new IndexedDatasetWriter({ prefix, dtype: 'uint16' });
    writer.addSequence([1, 9, 2, 3, 9, 4, 9, 9, 5]);
    writer.endDocument();
    writer.finish();
    using dataset = openGptDataset({
      ...base,
      prefix,
      sequenceLength: 8,
      endOfDocument: 9,
      eodMaskLoss: true,
      resetPositionIds: true,
      resetAttentionMask: true,
    });
    const { tokens, lossMask, positionIds, keyStart } = dataset.sample(0);
    expect([...tokens]).toEqual([1, 9, 2, 3, 9, 4, 9, 9]);
    expect([...lossMask]).toEqual([1, 0, 1, 1, 0, 1, 0, 0]);
    expect([...positionIds]).toEqual([0, 1, 0, 1, 2, 0, 1, 0]);
    expect([...keyStart!]).toEqual([0, 0, 2, 2, 2, 5, 5, 7]);
  });

  it('pads a partial validation sample and keeps it out of the loss', () => {
    const prefix = write('partial', [5, 2], 10);
    const options: GptDatasetOptions = {
      ...base,
      prefix,
      split: 'valid',
      splitWeights: '0,1,0',
      dropLastPartialValidationSequence: false,
    };
    using dataset = openGptDataset(options);
    expect(dataset.length).toBe(2);
    const short = [0, 1].find((sample) => dataset.text(sample).includes(-1))!;
    expect([...dataset.text(short)].filter((token) => token === -1)).toHaveLength(2);
    const sample = dataset.sample(short);
    expect([...sample.lossMask]).toEqual([1, 1, 0, 0]);
    expect([...sample.labels].slice(2)).toEqual([0, 0]);
    expect(sample.tokens[3]).toBe(0);
  });

  it('treats the padding token as padding unless it is the end of document', () => {
    const prefix = write('pad', [9]);
    using padded = openGptDataset({ ...base, prefix, sequenceLength: 8, padId: 3, cacheDirectory: false });
    expect([...padded.sample(0).lossMask]).toEqual([1, 1, 0, 1, 1, 1, 1, 1]);
    using same = openGptDataset({
      ...base,
      prefix,
      sequenceLength: 8,
      padId: 3,
      endOfDocument: 3,
      cacheDirectory: false,
    });
    expect([...same.sample(0).lossMask]).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
  });

  it('names sequence and position of a token beyond the vocabulary', () => {
    const prefix = write('vocabulary', [5]);
    using dataset = openGptDataset({ ...base, prefix, vocabularySize: 3 });
    expect(() => dataset.sample(0)).toThrow(
      expect.objectContaining({
        code: 'MTL_DATA_TOKEN_OUT_OF_VOCABULARY',
        message: expect.stringContaining('position 3'),
      }),
    );
  });

  it('tells which documents its samples were read from, also in a blend', () => {
    const lengths = [5, 3, 7, 4, 9, 1, 2];
    const documentNumbers = lengths.flatMap((length, document) => Array.from({ length }, () => document));
    const [first, second] = [write('first', lengths), write('second', lengths)];
    using dataset = openGptDataset({ ...base, prefix: first, numSamples: 40 });
    for (let sample = 0; sample < 40; sample++) {
      const documents = [...dataset.text(sample)].map((token) => documentNumbers[token]!);
      expect(dataset.listDocuments(sample).source).toBe(first);
      expect(new Set(dataset.listDocuments(sample).documents)).toEqual(new Set(documents));
    }
    const { train } = buildGptDatasets({
      blend: parseDataPath(['0.5', first, '0.5', second]),
      numSamples: { train: 12, valid: 0, test: 0 },
      sequenceLength: 4,
      seed: 1,
      dataCachePath: false,
    });
    const found = documentsOfSamples(train!, [0, 1, 2, 3, 4, 5]);
    expect(found.map(({ source }) => source).toSorted()).toEqual([first, second]);
    for (const { source, documents } of found) {
      const samples = [0, 1, 2, 3, 4, 5].filter((sample) => train!.listDocuments!(sample).source === source);
      const expected = samples.flatMap((sample) =>
        [...train!.sample(sample).tokens].map((token) => documentNumbers[token]!),
      );
      // the last token of a sample is only a label, and may belong to the document after the last input's
      // document
      expect(documents).toEqual(expect.arrayContaining(expected));
      expect(documents).toEqual([...new Set(documents)].sort((a, b) => a - b));
    }
    train!.close();
  });

  it('can be opened again from its description', () => {
    const prefix = write('again', [5, 3, 7, 4]);
    using dataset = openGptDataset({ ...base, prefix });
    const again = openSampleDataset(structuredClone(dataset.description));
    expect(again).toBeInstanceOf(GptDataset);
    expect(again.sample(2)).toEqual(dataset.sample(2));
    again.close();
  });

  it('reports which dataset and part are too small', () => {
    const prefix = write('small', [5, 3, 7, 4]);
    expect(() =>
      openGptDataset({ ...base, prefix, split: 'test', splitWeights: '98,1,1', numSamples: 3 }),
    ).toThrow(
      expect.objectContaining({
        code: 'MTL_DATA_NO_TOKENS',
        message: expect.stringContaining('small (test)'),
      }),
    );
  });
});

describe('index cache', () => {
  const description = (prefix: string) => `{
    "class": "GPTDataset",
    "dataset_path": "${prefix}",
    "num_samples": 10,
    "index_split": "train",
    "random_seed": 1234,
    "sequence_length": 4,
    "split": "1",
    "split_matrix": [
        [
            0,
            1.0
        ],
        null,
        null
    ],
    "tokenizer": {
        "class": "x"
    }
}`;

  function open(prefix: string, change: Partial<GptDatasetOptions> = {}) {
    const events: IndexCacheEvent[] = [];
    const options = { ...base, prefix, numSamples: 10, tokenizerIdentifiers: { class: 'x' }, ...change };
    using dataset = openGptDataset({ ...options, onCacheEvent: (event) => events.push(event) });
    const samples = Array.from({ length: dataset.length }, (_, i) => [...dataset.text(i)]);
    return { events, samples };
  }

  it('has the names and bytes of Megatron and NumPy', () => {
    const prefix = write('cached', [5, 3, 7, 4]);
    open(prefix);
    const md5 = createHash('md5').update(description(prefix)).digest('hex');
    const cache = join(prefix, 'cache', 'GPTDataset_indices');
    expect(readdirSync(cache).sort()).toEqual(
      ['description.txt', 'document_index.npy', 'sample_index.npy', 'shuffle_index.npy'].map(
        (name) => `${md5}-GPTDataset-train-${name}`,
      ),
    );
    expect(readFileSync(join(cache, `${md5}-GPTDataset-train-description.txt`), 'utf8')).toBe(
      description(prefix),
    );
    const npy = readFileSync(join(cache, `${md5}-GPTDataset-train-sample_index.npy`));
    const header = "{'descr': '<i4', 'fortran_order': False, 'shape': (15, 2), }";
    expect(npy.subarray(0, 128).toString('latin1')).toBe(`\x93NUMPY\x01\x00v\x00${header.padEnd(117)}\n`);
    expect(npy.length).toBe(128 + 15 * 2 * 4);
  });

  it('is built once, then loaded', () => {
    const prefix = write('twice', [5, 3, 7, 4]);
    const first = open(prefix);
    const second = open(prefix);
    expect([...first.events, ...second.events].map((event) => event.kind)).toEqual(['built', 'loaded']);
    expect(second.samples).toEqual(first.samples);
  });

  it('is loaded where only the tokenizer has another name, such as another path', () => {
    const prefix = write('moved', [5, 3, 7, 4]);
    const first = open(prefix, { tokenizerIdentifiers: { class: 'x', tokenizer_path: 'a/tokenizer.json' } });
    const moved = { tokenizerIdentifiers: { class: 'x', tokenizer_path: 'b/tokenizer.json' } };
    const second = open(prefix, moved);
    expect(second.events).toMatchObject([{ kind: 'loaded' }]);
    expect(second.samples).toEqual(first.samples);
    const files = readdirSync(join(prefix, 'cache', 'GPTDataset_indices'));
    expect(files).toHaveLength(4);
    // a change of any setting other than the tokenizer gives a different index
    for (const change of [
      { seed: base.seed + 1 },
      { numSamples: 9 },
      { sequenceLength: 5 },
      { split: 'valid' as const, splitWeights: '1,1' },
    ])
      expect(open(prefix, { ...moved, ...change }).events).toMatchObject([{ kind: 'built' }]);
  });

  it('is built where the index of the moved tokenizer is damaged', () => {
    const prefix = write('moved-damaged', [5, 3, 7, 4]);
    const first = open(prefix);
    const cache = join(prefix, 'cache', 'GPTDataset_indices');
    flip(join(cache, readdirSync(cache).find((name) => name.endsWith('shuffle_index.npy'))!), 128);
    const second = open(prefix, { tokenizerIdentifiers: { class: 'y' } });
    expect(second.events).toMatchObject([{ kind: 'built' }]);
    expect(second.samples).toEqual(first.samples);
  });

  it.each([
    ['shuffle_index.npy', 'is truncated', (path: string) => truncateSync(path, 100)],
    ['shuffle_index.npy', 'repeats a sample', (path: string) => flip(path, 128)],
    ['sample_index.npy', 'has a wrong offset', (path: string) => flip(path, 128 + 12)],
    ['document_index.npy', 'has a wrong document', (path: string) => flip(path, 128)],
    ['sample_index.npy', 'is missing', (path: string) => rmSync(path)],
    ['document_index.npy', 'is empty', (path: string) => writeFileSync(path, '')],
    ['description.txt', 'is another', (path: string) => writeFileSync(path, '{}')],
  ])('is built again when %s %s, and reports it', (file, _, damage) => {
    const prefix = write('damaged', [5, 3, 7, 4]);
    const first = open(prefix);
    const cache = join(prefix, 'cache', 'GPTDataset_indices');
    damage(join(cache, readdirSync(cache).find((name) => name.endsWith(file))!));
    const second = open(prefix);
    expect(second.events).toMatchObject([{ kind: 'rebuilt', reason: expect.any(String) }]);
    expect(second.samples).toEqual(first.samples);
    expect(open(prefix).events).toMatchObject([{ kind: 'loaded' }]);
  });

  it('goes on, and reports it, when it cannot be written', () => {
    const prefix = write('readonly', [5, 3, 7, 4]);
    const blocked = join(directory, 'file');
    writeFileSync(blocked, '');
    chmodSync(blocked, 0o444);
    const { events, samples } = open(prefix, { cacheDirectory: join(blocked, 'cache') });
    expect(events).toMatchObject([{ kind: 'not-written' }]);
    expect(samples).toHaveLength(14);
  });
});

describe('buildGptDatasets', () => {
  it('splits one dataset into parts', () => {
    const prefix = write(
      'parts',
      Array.from({ length: 20 }, () => 10),
    );
    const parts = buildGptDatasets({
      ...base,
      blend: parseDataPath([prefix]),
      splitWeights: '8,2,0',
      numSamples: { train: 30, valid: undefined, test: 5 },
    });
    expect(parts.train!.length).toBeGreaterThanOrEqual(30);
    expect(parts.valid!.length).toBe(9);
    expect(parts.test).toBeUndefined();
    const tokens = (part: 'train' | 'valid') =>
      new Set(
        Array.from({ length: parts[part]!.length }, (_, i) => [...parts[part]!.sample(i).tokens]).flat(),
      );
    expect(Math.max(...tokens('train'))).toBeLessThan(160);
    expect(Math.min(...tokens('valid'))).toBeGreaterThanOrEqual(160);
  });

  it('blends by weight, with the surplus and one cache directory', () => {
    const a = write(
      'a',
      Array.from({ length: 20 }, () => 10),
    );
    const b = write(
      'b',
      Array.from({ length: 20 }, () => 10),
      1000,
    );
    const events: IndexCacheEvent[] = [];
    const options = {
      ...base,
      blend: parseDataPath(['3', a, '1', b]),
      numSamples: { train: 40, valid: 0, test: 0 },
      dataCachePath: join(directory, 'indices'),
      onCacheEvent: (event: IndexCacheEvent) => events.push(event),
    };
    const { train } = buildGptDatasets(options);
    expect(train!.length).toBe(40);
    const ofB = Array.from({ length: 40 }, (_, i) => train!.sample(i)).filter(
      (sample) => sample.tokens[0]! >= 1000,
    );
    expect(ofB).toHaveLength(10);
    // 30 and 10 with a surplus of 0.005, rounded up.
    const descriptions = readdirSync(options.dataCachePath).filter((name) =>
      name.includes('GPTDataset-train-desc'),
    );
    const asked = descriptions.map(
      (name) => JSON.parse(readFileSync(join(options.dataCachePath, name), 'utf8')).num_samples,
    );
    expect(asked.sort()).toEqual([11, 31]);
    expect(train!.sample(7).sampleNumbers[0]).toBe(7);
    expect(buildGptDatasets(options).train!.sample(7)).toEqual(train!.sample(7));
    expect(events.map((event) => event.kind)).toEqual([
      'built',
      'built',
      'built',
      'loaded',
      'loaded',
      'loaded',
    ]);
  });

  it('takes every sample once without weights and sizes, and refuses weights without sizes', () => {
    const a = write('a', [9, 9]);
    const b = write('b', [41], 1000);
    const options = { ...base, numSamples: { train: undefined, valid: 0, test: 0 } };
    const { train } = buildGptDatasets({ ...options, blend: parseDataPath([a, b]) });
    expect(train!.length).toBe(4 + 10);
    expect(() => buildGptDatasets({ ...options, blend: parseDataPath(['1', a, '2', b]) })).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_PATH' }),
    );
  });
});

function flip(path: string, offset: number): void {
  const bytes = readFileSync(path);
  bytes[offset]! ^= 1;
  writeFileSync(path, bytes);
}
