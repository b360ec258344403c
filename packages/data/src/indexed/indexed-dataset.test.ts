import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  IndexedDataset,
  IndexedDatasetWriter,
  inspectIndexedDataset,
  mergeIndexedDatasets,
  verifyIndexedDataset,
} from '../index.js';
import { type TokenDtype, tokenDtypeForVocabulary } from './token-dtype.js';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const broken = (message: RegExp) =>
  expect.objectContaining({ code: 'MTL_DATA_INDEXED_DATASET', message: expect.stringMatching(message) });

function writeDataset(name: string, documents: readonly number[][], dtype: TokenDtype = 'uint16'): string {
  const prefix = join(directory, name);
  const writer = new IndexedDatasetWriter({ prefix, dtype });
  for (const tokens of documents) {
    if (tokens.length > 0) writer.addSequence(tokens);
    writer.endDocument();
  }
  writer.finish();
  return prefix;
}

/** Returns documents of the given lengths, filled with the tokens 0, 1, 2, ... */
function counted(lengths: readonly number[]): number[][] {
  let next = 0;
  return lengths.map((length) => Array.from({ length }, () => next++));
}

const goldenIndex = [
  '4d4d49444944580000',
  '0100000000000000',
  '08',
  '0400000000000000',
  '0500000000000000',
  '05000000',
  '03000000',
  '07000000',
  '04000000',
  '0000000000000000',
  '0a00000000000000',
  '1000000000000000',
  '1e00000000000000',
  '0000000000000000',
  '0100000000000000',
  '0200000000000000',
  '0300000000000000',
  '0400000000000000',
].join(''); // prettier-ignore

describe('IndexedDatasetWriter', () => {
  it('writes the bytes that Megatron writes', () => {
    const prefix = writeDataset('golden', counted([5, 3, 7, 4]));
    expect(readFileSync(`${prefix}.idx`).toString('hex')).toBe(goldenIndex);
    const bin = readFileSync(`${prefix}.bin`);
    expect(createHash('md5').update(bin).digest('hex')).toBe('8fc867b9649a4f5b9fcd9153be14cd37');
  });

  it('leaves nothing behind until it is finished, and nothing temporary after', () => {
    const writer = new IndexedDatasetWriter({ prefix: join(directory, 'x'), dtype: 'int32' });
    writer.addSequence([1, 2, 3]);
    expect(existsSync(join(directory, 'x.bin'))).toBe(false);
    writer.discard();
    expect(readdirSync(directory)).toEqual([]);
    writeDataset('y', [[1]]);
    expect(readdirSync(directory).sort()).toEqual(['y.bin', 'y.idx']);
  });

  it('refuses tokens that the element type cannot hold', () => {
    const writer = new IndexedDatasetWriter({ prefix: join(directory, 'x'), dtype: 'uint16' });
    for (const token of [-1, 65536, 1.5, Number.NaN]) {
      expect(() => writer.addSequence([token])).toThrow(
        expect.objectContaining({ code: 'MTL_DATA_TOKEN_RANGE' }),
      );
    }
    writer.discard();
  });

  it('refuses lengths that do not fit the tokens', () => {
    const writer = new IndexedDatasetWriter({ prefix: join(directory, 'x'), dtype: 'uint16' });
    const tokens = Uint16Array.of(1, 2, 3);
    for (const [lengths, sequences] of [
      [[2, 2], [2]],
      [[2, 1], [1]],
      [
        [2, 1],
        [1, 2],
      ],
    ] as const) {
      expect(() => writer.addSequencesOfDocuments({ tokens, lengths, sequences })).toThrow(
        expect.objectContaining({ code: 'MTL_DATA_LENGTHS' }),
      );
    }
    writer.discard();
  });

  it('chooses the element type by the vocabulary as Megatron does', () => {
    expect(tokenDtypeForVocabulary(65499)).toBe('uint16');
    expect(tokenDtypeForVocabulary(65500)).toBe('int32');
  });
});

describe('IndexedDataset', () => {
  const dtypes: TokenDtype[] = ['uint8', 'int8', 'int16', 'int32', 'int64', 'float64', 'float32', 'uint16'];

  it.each(dtypes)('copies several sequences of %s at once', (dtype) => {
    const lengths = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(lengths, fc.nat(), fc.nat(), (sizes, one, other) => {
        const sequences = counted(sizes);
        using dataset = IndexedDataset.open(writeDataset('several', sequences, dtype));
        const first = Math.min(one % sizes.length, other % sizes.length);
        const end = Math.max(one % sizes.length, other % sizes.length) + 1;
        const expected = sequences.slice(first, end).flat();
        expect(dataset.countTokens({ first, end })).toBe(expected.length);
        const target = new Int32Array(expected.length + 1).fill(-1);
        expect(dataset.copySequences({ first, end, target })).toBe(expected.length);
        expect([...target]).toEqual([...expected, -1]);
        const small = new Int32Array(expected.length - 1);
        expect(() => dataset.copySequences({ first, end, target: small })).toThrow(
          expect.objectContaining({ code: 'MTL_DATA_TARGET_TOO_SMALL' }),
        );
        for (const range of [
          { first, end: first },
          { first: -1, end },
          { first, end: sizes.length + 1 },
        ]) {
          expect(() => dataset.countTokens(range)).toThrow(
            expect.objectContaining({ code: 'MTL_DATA_OUT_OF_RANGE' }),
          );
        }
      }),
      { numRuns: 20 },
    );
  });

  it.each(dtypes)(
    'reads back what was written as %s, documents with several and with no sequences',
    (dtype) => {
      const sequences = fc.array(fc.array(fc.integer({ min: 0, max: 127 }), { minLength: 1, maxLength: 9 }), {
        maxLength: 3,
      });
      fc.assert(
        fc.property(fc.array(sequences, { maxLength: 12 }), (documents) => {
          const prefix = join(directory, 'round');
          const writer = new IndexedDatasetWriter({ prefix, dtype });
          for (const document of documents) {
            for (const tokens of document) writer.addSequence(tokens);
            writer.endDocument();
          }
          writer.finish();
          using dataset = IndexedDataset.open(prefix);
          const read = Array.from({ length: dataset.numDocuments }, (_, document) => {
            const { first, end } = dataset.documentSequences(document);
            return Array.from({ length: end - first }, (_, i) =>
              Array.from(dataset.sequence(first + i), Number),
            );
          });
          expect(read).toEqual(documents);
          expect(dataset.dtype).toBe(dtype);
        }),
        { numRuns: 30 },
      );
    },
  );

  it.each(dtypes)('copies slices of %s tokens as int32', (dtype) => {
    const prefix = writeDataset('slice', counted([5, 3, 7]), dtype);
    using dataset = IndexedDataset.open(prefix);
    const target = new Int32Array(6).fill(-1);
    expect(dataset.copySequence({ sequence: 2, offset: 1, length: 3, target, targetOffset: 2 })).toBe(3);
    expect([...target]).toEqual([-1, -1, 9, 10, 11, -1]);
  });

  it('keeps modes of multimodal datasets', () => {
    const prefix = join(directory, 'modes');
    const writer = new IndexedDatasetWriter({ prefix, dtype: 'int32', multimodal: true });
    writer.addSequence([1, 2], 1);
    writer.addSequence([3], 0);
    writer.endDocument();
    writer.finish();
    mergeIndexedDatasets({ inputs: [prefix, prefix], output: join(directory, 'merged') });
    using dataset = IndexedDataset.open(join(directory, 'merged'));
    expect([...dataset.sequenceModes!]).toEqual([1, 0, 1, 0]);
  });

  it('names a missing file and the prefixes that are there', () => {
    writeDataset('present', [[1]]);
    expect(() => IndexedDataset.open(join(directory, 'absent'))).toThrow(
      expect.objectContaining({
        code: 'MTL_DATA_INDEXED_DATASET',
        remedy: expect.stringContaining('present'),
      }),
    );
  });

  it.each([
    ['is truncated', (idx: Buffer) => idx.subarray(0, 20), /inside its header/],
    [
      'is not an index',
      (idx: Buffer) => Buffer.from(idx.toString('latin1').replace('MMID', 'XXXX'), 'latin1'),
      /first bytes/,
    ],
    ['has another version', (idx: Buffer) => patched(idx, 9, 2), /format version 2/],
    ['has an unknown element type', (idx: Buffer) => patched(idx, 17, 99), /unknown element type 99/],
    ['announces too many sequences', (idx: Buffer) => patched(idx, 18, 200), /announces 200 sequences/],
    ['announces absurdly many sequences', (idx: Buffer) => patched(idx, 25, 255), /announces/],
    ['lost its tail', (idx: Buffer) => idx.subarray(0, idx.length - 8), /bytes long/],
    ['has a negative length', (idx: Buffer) => patched(idx, 34 + 3, 0x80), /negative length/],
    ['has a wrong length', (idx: Buffer) => patched(idx, 34 + 12, 9), /does not fit its \.idx/],
    ['has a wrong pointer', (idx: Buffer) => patched(idx, 34 + 16 + 8, 3), /sequence 1 points to byte 3/],
    [
      'has documents that go back',
      (idx: Buffer) => patched(idx, 34 + 48 + 16, 0),
      /document 1 ends at sequence 0/,
    ],
    [
      'has documents past the end',
      (idx: Buffer) => patched(idx, 34 + 48 + 32, 9),
      /documents end at sequence 9/,
    ],
    [
      'has documents that start late',
      (idx: Buffer) => patched(idx, 34 + 48, 1),
      /do not start at sequence 0/,
    ],
  ] as const)('refuses an index that %s', (_, change, message) => {
    const prefix = writeDataset('bad', counted([5, 3, 7, 4]));
    writeFileSync(`${prefix}.idx`, change(readFileSync(`${prefix}.idx`)));
    expect(() => IndexedDataset.open(prefix)).toThrow(broken(message));
  });

  it('refuses a .bin file that is too short or too long', () => {
    const prefix = writeDataset('bin', counted([5, 3]));
    truncateSync(`${prefix}.bin`, 14);
    expect(() => IndexedDataset.open(prefix)).toThrow(broken(/bin: is 14 bytes long/));
    writeFileSync(`${prefix}.bin`, Buffer.alloc(18));
    expect(() => IndexedDataset.open(prefix)).toThrow(broken(/bin: is 18 bytes long/));
  });

  it('notices a .bin file that shrinks after it was opened', () => {
    const prefix = writeDataset('shrinking', counted([5, 3]));
    using dataset = IndexedDataset.open(prefix);
    truncateSync(`${prefix}.bin`, 4);
    expect(() => dataset.sequence(0)).toThrow(broken(/became shorter/));
  });
});

describe('mergeIndexedDatasets', () => {
  it('is the concatenation', () => {
    const parts = [counted([5, 0, 3]), counted([2]), [[], [7, 7]]];
    const inputs = parts.map((documents, i) => writeDataset(`part${i}`, documents));
    const summary = mergeIndexedDatasets({ inputs, output: join(directory, 'merged') });
    const whole = writeDataset('whole', parts.flat());
    expect(summary).toMatchObject({ numDocuments: 6, numSequences: 4, numTokens: 12 });
    for (const file of ['bin', 'idx']) {
      expect(readFileSync(join(directory, `merged.${file}`))).toEqual(readFileSync(`${whole}.${file}`));
    }
  });

  it('refuses different element types and an output among the inputs', () => {
    const a = writeDataset('a', [[1]], 'uint16');
    const b = writeDataset('b', [[1]], 'int32');
    expect(() => mergeIndexedDatasets({ inputs: [a, b], output: join(directory, 'c') })).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_DTYPE_MISMATCH' }),
    );
    expect(() => mergeIndexedDatasets({ inputs: [a], output: `${a}.bin` })).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_MERGE' }),
    );
    expect(readdirSync(directory).filter((name) => name.includes('tmp'))).toEqual([]);
  });
});

describe('verifyIndexedDataset', () => {
  it('reports the range of tokens', () => {
    const prefix = writeDataset('good', counted([5, 0, 3]));
    expect(verifyIndexedDataset({ prefix, vocabularySize: 8 })).toMatchObject({
      smallestToken: 0,
      largestToken: 7,
      numEmptyDocuments: 1,
      longestSequence: 5,
    });
    expect(inspectIndexedDataset(prefix)).toMatchObject({
      numTokens: 8,
      shortestSequence: 3,
      multimodal: false,
    });
  });

  it('names document and position of a token beyond the vocabulary', () => {
    const prefix = writeDataset('beyond', [[1, 2], [], [3, 9, 4]]);
    expect(() => verifyIndexedDataset({ prefix, vocabularySize: 9 })).toThrow(
      expect.objectContaining({
        code: 'MTL_DATA_TOKEN_OUT_OF_VOCABULARY',
        details: expect.objectContaining({ document: 2, position: 1, token: 9 }),
      }),
    );
  });

  it('finds negative tokens without a vocabulary', () => {
    const prefix = writeDataset('negative', [[1, -2]], 'int32');
    expect(() => verifyIndexedDataset({ prefix })).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_TOKEN_OUT_OF_VOCABULARY' }),
    );
  });
});

function patched(bytes: Buffer, offset: number, value: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[offset] = value;
  return copy;
}
