import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ByteWriter } from 'hyparquet-writer';
import { serializeTCompactProtocol } from 'hyparquet-writer/src/thrift.js';
import { afterAll, describe, expect, it } from 'vitest';
import { readColumnPages } from './column-pages.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-pages-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const encodings = { plain: 0, rle: 3, deltaLength: 6, delta: 7, dictionary: 8 } as const;

interface Page {
  readonly encoding: keyof typeof encodings;
  readonly numValues: number;
  readonly bytes: readonly number[];
  /** The length that the header states. Default: the actual number of bytes. */
  readonly length?: number;
  readonly isDictionary?: boolean;
}

/** Returns the bytes of uncompressed pages, each with its header. */
function written(pages: readonly Page[]): Buffer {
  const parts = pages.map(({ encoding, numValues, bytes, length = bytes.length, isDictionary = false }) => {
    const settings = {
      field_1: numValues,
      field_2: encodings[encoding],
      field_3: encodings.rle,
      field_4: encodings.rle,
    };
    const writer = new ByteWriter();
    serializeTCompactProtocol(writer, {
      field_1: isDictionary ? 2 : 0,
      field_2: length,
      field_3: bytes.length,
      ...(isDictionary ? { field_7: { field_1: numValues, field_2: 0 } } : { field_5: settings }),
    });
    return Buffer.concat([new Uint8Array(writer.getBuffer()), Uint8Array.from(bytes)]);
  });
  return Buffer.concat(parts);
}

function readTexts(
  pages: readonly Page[],
  isOptional = false,
  codec: 'UNCOMPRESSED' | 'LZ4_RAW' = 'UNCOMPRESSED',
): (string | undefined)[] {
  const path = join(directory, 'pages');
  const bytes = written(pages);
  writeFileSync(path, bytes);
  const numValues = pages.reduce((sum, page) => sum + (page.isDictionary ? 0 : page.numValues), 0);
  const descriptor = openSync(path, 'r');
  try {
    const chunk = { start: 0, length: bytes.length, codec, numValues, isOptional };
    const values = Array.from(readColumnPages(descriptor, chunk)).flatMap((page) => page.values);
    return values.map((value) => value && Buffer.from(value).toString());
  } finally {
    closeSync(descriptor);
  }
}

const a = [1, 0, 0, 0, 97];
const dictionary: Page = {
  encoding: 'plain',
  numValues: 2,
  bytes: [...a, 1, 0, 0, 0, 98],
  isDictionary: true,
};
// Two lengths, 1 and 1: blocks of 128 values in 4 miniblocks, 2 values, the first value is 1, the differences
// are 0.
const ones = [128, 1, 4, 2, 2, 0, 0, 0, 0, 0];
// two lengths, 0 and 1, in a miniblock with one bit per value
const zeroAndOne = [128, 1, 4, 2, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0];

describe('readColumnPages', () => {
  it('decodes every encoding of texts', () => {
    expect(readTexts([{ encoding: 'plain', numValues: 1, bytes: a }])).toEqual(['a']);
    expect(readTexts([dictionary, { encoding: 'dictionary', numValues: 3, bytes: [1, 4, 1, 3, 0] }])).toEqual(
      ['b', 'b', 'a'],
    );
    expect(readTexts([{ encoding: 'deltaLength', numValues: 2, bytes: [...ones, 97, 98] }])).toEqual([
      'a',
      'b',
    ]);
    expect(readTexts([{ encoding: 'delta', numValues: 2, bytes: [...zeroAndOne, ...ones, 97, 98] }])).toEqual(
      ['a', 'ab'],
    );
    const levels = [2, 0, 0, 0, 3, 0b101];
    expect(readTexts([{ encoding: 'plain', numValues: 3, bytes: [...levels, ...a, ...a] }], true)).toEqual([
      'a',
      undefined,
      'a',
    ]);
  });

  // a run of 2^28 - 1 values, which would fill the memory
  const endless = [254, 255, 255, 255, 7, 1];
  it.each<[string, RegExp, readonly Page[], boolean?]>([
    [
      'a run of levels',
      /run of \d+ values beyond its end/,
      [{ encoding: 'plain', numValues: 1, bytes: [6, 0, 0, 0, ...endless, ...a] }],
      true,
    ],
    [
      'levels beyond the page',
      /levels that are longer/,
      [{ encoding: 'plain', numValues: 1, bytes: [9, 0, 0, 0, 2, 1] }],
      true,
    ],
    [
      'a run of indices',
      /run of \d+ values beyond its end/,
      [dictionary, { encoding: 'dictionary', numValues: 1, bytes: [1, ...endless] }],
    ],
    [
      'packed indices',
      /run of 16 values beyond its end/,
      [dictionary, { encoding: 'dictionary', numValues: 1, bytes: [1, 5, 0, 0] }],
    ],
    [
      'a run of nothing',
      /run of no values/,
      [dictionary, { encoding: 'dictionary', numValues: 1, bytes: [1, 0, 0] }],
    ],
    [
      'indices that end early',
      /ends 1 bytes early/,
      [dictionary, { encoding: 'dictionary', numValues: 9, bytes: [1, 5, 0] }],
    ],
    [
      'wide indices',
      /integers of 25 bits/,
      [dictionary, { encoding: 'dictionary', numValues: 1, bytes: [25, 2, 0, 0, 0, 0] }],
    ],
    [
      'an entry',
      /entry 1 of a dictionary of 1/,
      [
        { ...dictionary, numValues: 1, bytes: a },
        { encoding: 'dictionary', numValues: 1, bytes: [1, 2, 1] },
      ],
    ],
    ['no dictionary', /no dictionary/, [{ encoding: 'dictionary', numValues: 1, bytes: [1, 2, 1] }]],
    [
      'values that a page cannot hold',
      /2 values in 5 bytes/,
      [{ encoding: 'plain', numValues: 2, bytes: a }],
    ],
    [
      'a value too many',
      /1 bytes behind the values/,
      [{ encoding: 'plain', numValues: 1, bytes: [...a, 0] }],
    ],
    [
      'blocks without values',
      /blocks of 0 values/,
      [{ encoding: 'deltaLength', numValues: 2, bytes: [0, 4, 2, 2, 0, 0, 0, 0, 0, 97, 98] }],
    ],
    [
      'blocks below zero',
      /blocks of -\d+ values/,
      [{ encoding: 'deltaLength', numValues: 2, bytes: [128, 255, 255, 255, 15, 1, 2, 2, 0, 0, 0, 97, 98] }],
    ],
    [
      'other lengths',
      /2 lengths for 1 values/,
      [{ encoding: 'deltaLength', numValues: 1, bytes: [...ones, 97] }],
    ],
    [
      'a length below zero',
      /a text of -1 bytes/,
      [{ encoding: 'delta', numValues: 2, bytes: [128, 1, 4, 2, 1, 0, 0, 0, 0, 0, ...ones, 97, 98] }],
    ],
    [
      'a longer prefix',
      /shares 1 bytes with a text of 0/,
      [{ encoding: 'delta', numValues: 2, bytes: [...ones, ...ones, 97, 98] }],
    ],
    [
      'a page that is shorter than it announces',
      /length 5 does not match header 6/,
      [{ encoding: 'plain', numValues: 1, bytes: a, length: 6 }],
    ],
    ['an encoding', /encoding RLE, which is not supported/, [{ encoding: 'rle', numValues: 1, bytes: a }]],
  ])('refuses %s', (_, message, pages, isOptional) => {
    expect(() => readTexts(pages, isOptional)).toThrow(message);
  });

  // In LZ4, each sequence of a block has literals and a copy of at least 4 earlier bytes. The last sequence
  // has only literals.
  it('refuses LZ4 blocks that end early, which the decoder fills up with zeros', () => {
    const page = (bytes: readonly number[], length: number): Page[] => [
      { encoding: 'plain', numValues: 1, bytes, length },
    ];
    const read = (pages: readonly Page[]) => readTexts(pages, false, 'LZ4_RAW');
    expect(read(page([0x50, ...a], 5))).toEqual(['a']);
    expect(read(page([0x50, 8, 0, 0, 0, 97, 1, 0, 0x30, 97, 97, 97], 12))).toEqual(['aaaaaaaa']);
    expect(() => read(page([0x50, ...a.slice(0, 4)], 5))).toThrow(/compressed bytes end early/);
    expect(() => read(page([0x40, ...a.slice(0, 4)], 5))).toThrow(
      /decompresses to 4 bytes, its header gives 5/,
    );
  });
});
