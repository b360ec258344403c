import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inflateRawSync } from 'node:zlib';
import { MtlError } from '@mtl/errors';
import { numberInRuns } from '@mtl/tooling/in-whole-runs';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterAll, describe, expect, it } from 'vitest';
import { readTextColumn } from './read-text-column.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-parquet-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const fixtures = new URL('../../../fixtures/parquet/', import.meta.url);
const expected = JSON.parse(readFileSync(new URL('texts.json', fixtures), 'utf8')) as string[];

const readTexts = async (path: string, key = 'text'): Promise<string[]> =>
  Array.from(await readTextColumn({ path, key }), ({ text }) => text);

async function readBytes(bytes: Uint8Array, key?: string): Promise<string[]> {
  const path = join(directory, 'a.parquet');
  writeFileSync(path, bytes);
  return readTexts(path, key);
}

const corpusError = (message: RegExp) =>
  expect.objectContaining({ code: 'MTL_DATA_CORPUS', message: expect.stringMatching(message) });

describe('readTextColumn', () => {
  const names = readdirSync(fixtures).filter((name) => name.endsWith('.parquet'));

  it.each(names.filter((name) => !/nulls|empty/.test(name)))('reads %s as pyarrow wrote it', async (name) => {
    expect(await readTexts(fileURLToPath(new URL(name, fixtures)))).toEqual(expected);
  });

  it.each(names.filter((name) => name.includes('nulls')))('names the row of a null in %s', async (name) => {
    const path = fileURLToPath(new URL(name, fixtures));
    await expect(readTexts(path)).rejects.toThrow(corpusError(/row 1 of column "text" is null/));
  });

  it.each([
    ['empty', []],
    ['empty-group', ['a', 'b', 'c']],
  ] as const)('reads the row groups without rows of %s.parquet as no texts', async (name, texts) => {
    expect(await readTexts(fileURLToPath(new URL(`${name}.parquet`, fixtures)))).toEqual(texts);
  });

  it('reports the type of a column that is not one of texts, and which there are', async () => {
    const path = fileURLToPath(new URL('plain.parquet', fixtures));
    await expect(readTexts(path, 'id')).rejects.toThrow(corpusError(/column "id" is INT32/));
    await expect(readTexts(path, 'nested')).rejects.toThrow(corpusError(/column "nested" is a struct/));
    await expect(readTexts(path, 'tags')).rejects.toThrow(corpusError(/column "tags" is a struct, list/));
    // a column inside a struct does not have a row for each document
    await expect(readTexts(path, 'x')).rejects.toThrow(corpusError(/has no column "x"/));
  });

  it('names the row whose bytes are not UTF-8', async () => {
    const texts = Array.from({ length: 30 }, (_, i) => `text ${i} ✓ \ufffd`);
    const bytes = new Uint8Array(
      parquetWriteBuffer({
        columnData: [{ name: 'text', data: texts, encoding: 'PLAIN' }],
        codec: 'UNCOMPRESSED',
        rowGroupSize: 10,
        statistics: false,
      }),
    );
    expect(await readBytes(bytes)).toEqual(texts);
    const at = Buffer.from(bytes).indexOf('text 17');
    bytes[at + 3] = 0xff;
    await expect(readBytes(bytes)).rejects.toThrow(
      corpusError(/a\.parquet: row 17 of column "text" is not UTF-8/),
    );
  });

  it('refuses counts in the footer that its pages do not have', async () => {
    const texts = Array.from({ length: 25 }, (_, i) => `text ${i}`);
    const bytes = new Uint8Array(
      parquetWriteBuffer({
        columnData: [{ name: 'text', data: texts, encoding: 'PLAIN' }],
        codec: 'UNCOMPRESSED',
        rowGroupSize: 25,
        statistics: false,
      }),
    );
    const footer = bytes.length - 8 - Buffer.from(bytes).readUInt32LE(bytes.length - 8);
    // the counts in the footer are the rows of the file, the values of the chunk and the rows of the group;
    // the value 25 is stored in zigzag encoding
    const counts = [...bytes.keys()].filter((i) => i >= footer && bytes[i] === 50 && bytes[i - 1] === 0x16);
    expect(counts).toHaveLength(3);
    for (const less of [2, 50]) {
      for (const some of [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]) {
        const changed = Uint8Array.from(bytes);
        for (const i of some) changed[counts[i]!]! -= less;
        await expect(readBytes(changed)).rejects.toThrow(corpusError(/not a readable Parquet file/));
      }
    }
  });
});

/**
 * Changes the bytes of a file one at a time. Without a checksum, a changed text need not be an error, but a
 * changed number of documents must be an error. (`npm run dev -- fuzz` tries many more changes.)
 */
describe('a damaged file', () => {
  const flips = [0x01, 0x80, 0xff];

  it.each(['plain', 'version-2-delta-zstd'])('%s loses no document in silence', async (name) => {
    const valid = readFileSync(new URL(`${name}.parquet`, fixtures));
    const wrong: string[] = [];
    const footer = valid.length - 8 - valid.readUInt32LE(valid.length - 8);
    for (let at = 0; at < valid.length; at += at < footer ? 61 : 5) {
      const bytes = Uint8Array.from(valid);
      bytes[at]! ^= flips[at % flips.length]!;
      try {
        const { length } = await readBytes(bytes);
        if (length !== expected.length) wrong.push(`byte ${at}: ${length} documents`);
      } catch (error) {
        if (!MtlError.isInstance(error)) wrong.push(`byte ${at}: ${String(error)}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it('with checksums gives its texts or an error, whichever byte of a page is wrong', async () => {
    const valid = readFileSync(new URL('checksums-gzip.parquet', fixtures));
    const footer = valid.length - 8 - valid.readUInt32LE(valid.length - 8);
    let refused = 0;
    for (let at = 4; at < footer; at += 23) {
      const bytes = Uint8Array.from(valid);
      bytes[at]! ^= flips[at % flips.length]!;
      try {
        // the header no longer announces a checksum
        expect(await readBytes(bytes)).toHaveLength(expected.length);
      } catch (error) {
        if (!MtlError.isInstance(error)) throw error;
        refused++;
      }
    }
    expect(refused).toBeGreaterThan(50);
  });

  it('that is truncated anywhere is refused', async () => {
    const valid = readFileSync(new URL('snappy.parquet', fixtures));
    for (let length = 0; length < valid.length; length += 113) {
      await expect(readBytes(valid.subarray(0, length))).rejects.toThrow(
        corpusError(/not a readable Parquet file/),
      );
    }
  });
});

/**
 * Flips the bits of small files of every codec one at a time, and compares the result with the result of
 * pyarrow.
 */
describe('a flipped bit', () => {
  const folder = new URL('../../../fixtures/parquet-damage/', import.meta.url);
  const damage = JSON.parse(readFileSync(new URL('damage.json', folder), 'utf8')) as Record<string, string>;
  // prime steps, so that every bit of a byte is covered
  const step = numberInRuns({ whole: 13, fast: 251 });

  it.each(Object.entries(damage))(
    'of %s gives other texts only where pyarrow reads them, too',
    async (name, bits) => {
      const accepted = inflateRawSync(Buffer.from(bits, 'base64'));
      const bytes = readFileSync(new URL(`${name}.parquet`, folder));
      const valid = await readBytes(bytes);
      const wrong: string[] = [];
      for (let bit = 0; bit < 8 * bytes.length; bit += step) {
        const [at, mask] = [bit >> 3, 1 << (bit & 7)];
        bytes[at]! ^= mask;
        try {
          const isOther = String(await readBytes(bytes)) !== String(valid);
          // if a page has a checksum, a flipped bit must never give different texts
          if (isOther && (name.endsWith('-crc') || (accepted[at]! & mask) === 0)) wrong.push(`bit ${bit}`);
        } catch (error) {
          if (!MtlError.isInstance(error)) wrong.push(`bit ${bit}: ${String(error)}`);
        }
        bytes[at]! ^= mask;
      }
      expect(wrong).toEqual([]);
    },
    600_000,
  );

  it('of a table within a frame of Zstandard is refused', async () => {
    const bytes = readFileSync(new URL('version-2-delta-zstd.parquet', fixtures));
    expect(bytes[2561]).toBe(0x42);
    bytes[2561] = 0x4a;
    await expect(readBytes(bytes)).rejects.toThrow(corpusError(/its frames of Zstandard are damaged/));
  });
});
