import { brotliDecompressSync, crc32, gunzipSync } from 'node:zlib';
import { readFully } from '@mtl/errors/files';
import type { CompressionCodec, Compressors, Encoding, PageHeader } from 'hyparquet';
import { parquetHeader } from 'hyparquet/src/column.js';
import { decompressPage } from 'hyparquet/src/datapage.js';
import { deltaBinaryUnpack, deltaLengthByteArray } from 'hyparquet/src/delta.js';
import { readRleBitPackedHybrid } from 'hyparquet/src/encoding.js';
import { readPlain } from 'hyparquet/src/plain.js';
import { readVarInt } from 'hyparquet/src/thrift.js';
import { compressors } from 'hyparquet-compressors';
import { decompressZstd } from './zstd.js';

// The library hyparquet decodes pages. It trusts the sizes in a page, so a damaged page could cause wrong
// texts, or exhaust memory or time. For this reason, counts, runs and lengths are checked before and after
// decoding.

/** The values of a column in one row group. */
export interface ColumnChunk {
  /** The offset in the file of the chunk's first page. */
  readonly start: number;
  /** The total size of the chunk's pages in bytes. */
  readonly length: number;
  readonly codec: CompressionCodec;
  /** The number of rows in the chunk. Each row has a value, which may be null. */
  readonly numValues: number;
  /** True if a value may be null. */
  readonly isOptional: boolean;
}

/** The values of a data page. */
interface TextPage {
  /** The bytes of each text; undefined for null. */
  readonly values: readonly (Uint8Array | undefined)[];
  /** The end of this page, as an offset in the file. */
  readonly end: number;
}

/** A buffer and the position at which hyparquet's functions read next. */
interface Reader {
  readonly view: DataView;
  offset: number;
}

// The number of bytes to read for a header. A header is short even with statistics; for a longer header, more
// bytes are read.
const headerBytes = 1 << 12;
/**
 * The upper limit for the size of a page, which exceeds the pages of any writer. It prevents larger
 * allocations for a damaged header.
 */
const maximumPageBytes = 1 << 30;
const maximumPageValues = 1 << 26;
// A block of lengths usually has 128 values in 4 miniblocks; a block of millions of values means damage.
const maximumBlockValues = 1 << 20;
// The largest bit width that hyparquet unpacks without losing bits; the indices of a dictionary of 16 million
// texts have 24 bits.
const maximumIndexBits = 24;

/**
 * Decodes a column chunk page by page, with memory for one page and the dictionary. The pages must fill the
 * chunk exactly and must have `numValues` values in total. Throws an Error that describes a mismatch.
 */
export function* readColumnPages(
  descriptor: number,
  chunk: ColumnChunk,
): Generator<TextPage, void, undefined> {
  const end = chunk.start + chunk.length;
  let position = chunk.start;
  let dictionary: readonly Uint8Array[] | undefined;
  let numValues = 0;
  while (position < end) {
    const { header, headerLength } = readPageHeader({ descriptor, position, end });
    position += headerLength;
    const { type, data_page_header: v1, data_page_header_v2: v2, dictionary_page_header } = header;
    const { length, compressedLength } = pageSizes(header, end - position);
    const bytes = readBytes({ descriptor, position, length: compressedLength });
    position += compressedLength;
    if (header.crc !== undefined && (crc32(bytes) | 0) !== header.crc) {
      throw new Error('a page does not have its checksum');
    }
    if (type === 'DICTIONARY_PAGE') {
      if (dictionary !== undefined || numValues > 0) throw new Error('it has a dictionary in its middle');
      const count = pageValues(dictionary_page_header);
      dictionary = readPlainTexts(makeReader(decompress(bytes, length, chunk.codec)), count);
      continue;
    }
    if (type !== 'DATA_PAGE' && type !== 'DATA_PAGE_V2') {
      throw new Error(`it has a page of the type ${String(type)}`);
    }
    const count = pageValues(type === 'DATA_PAGE' ? v1 : v2);
    if (count > chunk.numValues - numValues) {
      throw new Error(`its pages have more values than the ${chunk.numValues} that the footer gives`);
    }
    numValues += count;
    const page = { header, bytes, length, numValues: count, chunk };
    const { levels, reader } = type === 'DATA_PAGE' ? openPage(page) : openPageV2(page);
    const { encoding } = (type === 'DATA_PAGE' ? v1 : v2)!;
    const texts = readTexts({ reader, encoding, count: numPresent(levels, count), dictionary });
    yield { values: withNulls(texts, levels), end: position };
  }
  if (numValues !== chunk.numValues) {
    throw new Error(`its pages have ${numValues} values, the footer gives ${chunk.numValues}`);
  }
}

function readPageHeader(options: { descriptor: number; position: number; end: number }): {
  header: PageHeader;
  headerLength: number;
} {
  const { descriptor, position, end } = options;
  for (let room = headerBytes; ; room *= 8) {
    const length = Math.min(room, end - position);
    const reader = makeReader(readBytes({ descriptor, position, length }));
    try {
      const header = parquetHeader(reader);
      if (reader.offset <= length) return { header, headerLength: reader.offset };
    } catch (cause) {
      if (length === end - position) {
        throw new Error(`it has a malformed page header (${(cause as Error).message})`, { cause });
      }
    }
  }
}

function pageSizes(
  { uncompressed_page_size, compressed_page_size }: PageHeader,
  available: number,
): { length: number; compressedLength: number } {
  const length = checkCount(uncompressed_page_size, 'page size');
  const compressedLength = checkCount(compressed_page_size, 'compressed page size');
  if (compressedLength > available) {
    throw new Error(`it has a page of ${compressedLength} bytes where ${available} are left`);
  }
  if (length > maximumPageBytes) {
    throw new Error(`it has a page of ${length} bytes; at most ${maximumPageBytes} can be read`);
  }
  return { length, compressedLength };
}

function pageValues(header: { readonly num_values: number } | undefined): number {
  const count = checkCount(header?.num_values, 'number of values in a page');
  if (count <= maximumPageValues) return count;
  throw new Error(`it has a page of ${count} values; at most ${maximumPageValues} can be read`);
}

/** Checks that a number in a header or footer is an integer of at least 0 and below 2^53. */
export function checkCount(value: unknown, name: string): number {
  const count = typeof value === 'bigint' ? Number(value) : value;
  if (Number.isSafeInteger(count) && (count as number) >= 0) return count as number;
  throw new Error(`its ${name} is ${value === undefined ? 'missing' : String(value)}`);
}

function readBytes(options: { descriptor: number; position: number; length: number }): Buffer {
  // each page has its own buffer; a text that extends beyond its page therefore also extends beyond the
  // buffer, so that reading it fails
  const bytes = Buffer.allocUnsafeSlow(options.length);
  if (readFully(options.descriptor, bytes, options.position) === bytes.length) return bytes;
  throw new Error('it became shorter while it was read');
}

function makeReader(bytes: Uint8Array): Reader {
  return { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
}

const remaining = ({ view, offset }: Reader): number => view.byteLength - offset;

interface DataPage {
  readonly header: PageHeader;
  readonly bytes: Uint8Array;
  /** The size of the page after decompression, in bytes. */
  readonly length: number;
  readonly numValues: number;
  readonly chunk: ColumnChunk;
}

/** The values of a page, and its definition levels (1 for a value, 0 for null; undefined without nulls). */
interface OpenPage {
  readonly levels: Uint8Array | undefined;
  readonly reader: Reader;
}

/** Opens a page of version 1, in which levels and values are compressed together. */
function openPage({ header, bytes, length, numValues, chunk }: DataPage): OpenPage {
  const page = decompress(bytes, length, chunk.codec);
  const reader = makeReader(page);
  if (!chunk.isOptional) return { levels: undefined, reader };
  const encoding = header.data_page_header!.definition_level_encoding;
  if (encoding !== 'RLE') {
    throw new Error(`its levels have the encoding ${String(encoding)}, which is not supported`);
  }
  const levelBytes = reader.view.getUint32(0, true);
  reader.offset = 4 + levelBytes;
  if (remaining(reader) < 0) throw new Error('it has levels that are longer than the page');
  return { levels: readLevels(page.subarray(4, 4 + levelBytes), numValues), reader };
}

/**
 * Opens a page of version 2: the levels come first and are not compressed; the header contains the counts of
 * nulls and rows.
 */
function openPageV2({ header, bytes, length, numValues, chunk }: DataPage): OpenPage {
  const settings = header.data_page_header_v2!;
  const numNulls = checkCount(settings.num_nulls, 'number of nulls');
  const numRows = checkCount(settings.num_rows, 'number of rows');
  const levelBytes = checkCount(settings.definition_levels_byte_length, 'length of levels');
  if (numRows !== numValues) throw new Error(`it has a page of ${numValues} values for ${numRows} rows`);
  if (settings.repetition_levels_byte_length !== 0) throw new Error('it has repetition levels');
  if (levelBytes > bytes.length || levelBytes > length) {
    throw new Error('it has levels that are longer than the page');
  }
  const levels = chunk.isOptional ? readLevels(bytes.subarray(0, levelBytes), numValues) : undefined;
  const nullLevels = numValues - numPresent(levels, numValues);
  if (nullLevels !== numNulls) throw new Error(`it has ${nullLevels} nulls, its header gives ${numNulls}`);
  const rest = bytes.subarray(levelBytes);
  // In a page of nulls, the compressed block of values (which would be empty) may be missing.
  if (rest.length === 0 && length === levelBytes) return { levels, reader: makeReader(rest) };
  const codec = settings.is_compressed === false ? 'UNCOMPRESSED' : chunk.codec;
  return { levels, reader: makeReader(decompress(rest, length - levelBytes, codec)) };
}

function readLevels(bytes: Uint8Array, numValues: number): Uint8Array {
  const levels = new Uint8Array(numValues);
  readIntegers(makeReader(bytes), 1, levels);
  return levels;
}

function numPresent(levels: Uint8Array | undefined, numValues: number): number {
  return levels === undefined ? numValues : levels.reduce((sum, level) => sum + level, 0);
}

/** Returns an entry for each row: a text, or undefined if the row is null. */
function withNulls(
  texts: readonly Uint8Array[],
  levels: Uint8Array | undefined,
): readonly (Uint8Array | undefined)[] {
  if (levels === undefined || levels.length === texts.length) return texts;
  let next = 0;
  return Array.from(levels, (level) => (level === 1 ? texts[next++] : undefined));
}

function readTexts(options: {
  readonly reader: Reader;
  readonly encoding: Encoding;
  readonly count: number;
  readonly dictionary: readonly Uint8Array[] | undefined;
}): readonly Uint8Array[] {
  const { reader, encoding, count, dictionary } = options;
  switch (encoding) {
    case 'PLAIN':
      return readPlainTexts(reader, count);
    case 'PLAIN_DICTIONARY':
    case 'RLE_DICTIONARY':
      return lookUp({ reader, count, dictionary });
    case 'DELTA_LENGTH_BYTE_ARRAY': {
      checkLengths(reader, count);
      const texts = new Array<Uint8Array>(count);
      deltaLengthByteArray(reader, count, texts);
      checkEnd(reader);
      return texts;
    }
    case 'DELTA_BYTE_ARRAY':
      return readSharedPrefixes(reader, count);
    default:
      throw new Error(`its texts have the encoding ${String(encoding)}, which is not supported`);
  }
}

function readPlainTexts(reader: Reader, count: number): readonly Uint8Array[] {
  // each length takes four bytes, so a count of lengths that do not fit into the page is rejected before
  // memory is allocated
  if (count > remaining(reader) / 4) throw new Error(`it has ${count} values in ${remaining(reader)} bytes`);
  const texts = readPlain(reader, 'BYTE_ARRAY', count, undefined) as Uint8Array[];
  checkEnd(reader);
  return texts;
}

function lookUp(options: {
  readonly reader: Reader;
  readonly count: number;
  readonly dictionary: readonly Uint8Array[] | undefined;
}): readonly Uint8Array[] {
  const { reader, count, dictionary } = options;
  if (dictionary === undefined) throw new Error('it has no dictionary');
  // A page of nulls may end here, without the byte for the bit width.
  if (count === 0) return [];
  const bitWidth = reader.view.getUint8(reader.offset++);
  if (bitWidth > maximumIndexBits) throw new Error(`it has integers of ${bitWidth} bits`);
  const indices = new Uint32Array(count);
  readIntegers(reader, bitWidth, indices);
  return Array.from(indices, (index) => {
    const text = dictionary[index];
    if (text !== undefined) return text;
    throw new Error(`it names entry ${index} of a dictionary of ${dictionary.length}`);
  });
}

/**
 * Decodes integers of `bitWidth` bits: runs of one value, and bit-packed groups of eight (Parquet's RLE /
 * bit-packing hybrid). Throws an Error if a run is empty or the bytes end too early.
 */
function readIntegers(reader: Reader, bitWidth: number, integers: Uint8Array | Uint32Array): void {
  const runs = { ...reader };
  for (let seen = 0; seen < integers.length; ) {
    const header = readVarInt(runs) >>> 0;
    const isPacked = header % 2 === 1;
    const length = isPacked ? (header >>> 1) * 8 : header >>> 1;
    if (length === 0) throw new Error('it has a run of no values');
    seen += length;
    // The last group is padded to eight integers; the padding does not count as values.
    if (seen - integers.length > (isPacked ? 7 : 0)) {
      throw new Error(`it has a run of ${length} values beyond its end`);
    }
    runs.offset += isPacked ? (length / 8) * bitWidth : Math.ceil(bitWidth / 8);
    if (remaining(runs) < 0) throw new Error(`it ends ${-remaining(runs)} bytes early`);
  }
  if (bitWidth > 0) readRleBitPackedHybrid(reader, bitWidth, integers, remaining(reader));
}

/** Decodes texts that are stored as the length of the prefix shared with the previous text, and a suffix. */
function readSharedPrefixes(reader: Reader, count: number): readonly Uint8Array[] {
  const shared = readLengths(reader, count);
  const lengths = readLengths(reader, count);
  let total = 0;
  for (let i = 0; i < count; i++) {
    const before = i === 0 ? 0 : shared[i - 1]! + lengths[i - 1]!;
    if (shared[i]! > before) throw new Error(`it shares ${shared[i]} bytes with a text of ${before}`);
    total += shared[i]! + lengths[i]!;
  }
  if (total > maximumPageBytes) {
    throw new Error(`it has a page of ${total} bytes; at most ${maximumPageBytes}`);
  }
  const { buffer, byteOffset, byteLength } = reader.view;
  const page = new Uint8Array(buffer, byteOffset, byteLength);
  const bytes = new Uint8Array(total);
  const texts = new Array<Uint8Array>(count);
  let filled = 0;
  for (let i = 0, before = 0; i < count; i++) {
    const start = filled;
    bytes.copyWithin(start, before, before + shared[i]!);
    const end = reader.offset + lengths[i]!;
    bytes.set(page.subarray(reader.offset, end), start + shared[i]!);
    reader.offset = end;
    filled += shared[i]! + lengths[i]!;
    texts[i] = bytes.subarray(start, filled);
    before = start;
  }
  checkEnd(reader);
  return texts;
}

function readLengths(reader: Reader, count: number): Int32Array {
  checkLengths(reader, count);
  const lengths = new Int32Array(count);
  deltaBinaryUnpack(reader, count, lengths);
  const negative = lengths.find((length) => length < 0);
  if (negative !== undefined) throw new Error(`it has a text of ${negative} bytes`);
  return lengths;
}

/**
 * Checks the header of lengths in DELTA_BINARY_PACKED, because decoding would never end if blocks had no
 * values.
 */
function checkLengths({ view, offset }: Reader, count: number): void {
  const header = { view, offset };
  const blockValues = readVarInt(header);
  const miniblocks = readVarInt(header);
  const total = readVarInt(header);
  if (
    !(blockValues > 0 && blockValues <= maximumBlockValues && miniblocks > 0) ||
    (blockValues / miniblocks) % 32 !== 0
  ) {
    throw new Error(`it has blocks of ${blockValues} values in ${miniblocks} miniblocks`);
  }
  if (total !== count) throw new Error(`it has ${total} lengths for ${count} values`);
}

/**
 * Throws if bytes remain after the values. Only indices may have padding. Other remaining bytes belong to a
 * value that was not read.
 */
function checkEnd(reader: Reader): void {
  const left = remaining(reader);
  if (left > 0) throw new Error(`it has ${left} bytes behind the values of a page`);
  if (left < 0) throw new Error(`it ends ${-left} bytes early`);
}

/**
 * Decompresses a page into exactly `length` bytes. Throws an Error if the result does not have this length.
 */
function decompress(bytes: Uint8Array, length: number, codec: CompressionCodec): Uint8Array {
  return decompressPage(bytes, length, codec, boundedCompressors);
}

/** Decompressors whose memory is limited by the page length in the header. */
const boundedCompressors: Compressors = {
  SNAPPY: snappy,
  GZIP: (bytes, length) => gunzipSync(bytes, { maxOutputLength: Math.max(1, length) }),
  BROTLI: (bytes, length) => brotliDecompressSync(bytes, { maxOutputLength: Math.max(1, length) }),
  ZSTD: decompressZstd,
  LZ4: compressors.LZ4!,
  LZ4_RAW: lz4Block,
};

/**
 * Decompresses an LZ4 block, which must contain exactly the bytes of the page. The length is checked first,
 * because the decoder pads a block that ends early with zeros.
 */
function lz4Block(bytes: Uint8Array, length: number): Uint8Array {
  const held = lengthOfLz4Block(bytes);
  if (held !== length) throw new Error(`it decompresses to ${held} bytes, its header gives ${length}`);
  return compressors.LZ4_RAW!(bytes, length);
}

/** Returns the decompressed length of a block: the sum over the literals and copies of its sequences. */
function lengthOfLz4Block(bytes: Uint8Array): number {
  let [offset, length] = [0, 0];
  const lengthFrom = (start: number): number => {
    let sum = start;
    for (let byte = start === 15 ? 255 : 0; byte === 255; sum += byte) byte = bytes[offset++] ?? 0;
    return sum;
  };
  while (offset < bytes.length) {
    const token = bytes[offset++]!;
    const literals = lengthFrom(token >> 4);
    offset += literals;
    length += literals;
    // the last sequence has no copy, only literals
    if (offset >= bytes.length) break;
    offset += 2;
    length += 4 + lengthFrom(token & 15);
  }
  if (offset !== bytes.length) throw new Error('its compressed bytes end early');
  return length;
}

/**
 * Decompresses bytes that begin with their decompressed length. The length is checked first, because the
 * decompressor trusts it.
 */
function snappy(bytes: Uint8Array, length: number): Uint8Array {
  const announced = readVarInt(makeReader(bytes));
  if (announced !== length) {
    throw new Error(`it decompresses to ${announced} bytes, its header gives ${length}`);
  }
  return length === 0 ? new Uint8Array(0) : compressors.SNAPPY!(bytes, length);
}
