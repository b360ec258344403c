import { ByteCursor } from './byte-cursor.js';
import { decompressPage, type ParquetCodec } from './decompress-page.js';
import { readDeltaLengths } from './delta-integers.js';
import { readHybridIntegers } from './hybrid-integers.js';
import { countField, type ThriftStruct } from './parquet-fields.js';

// N = values of the page, nulls included; P = those that are present.

const plain = 0;
const plainDictionary = 2;
const runLengths = 3;
const deltaLengthByteArray = 6;
const deltaByteArray = 7;
const dictionaryIndices = 8;

/** Values as ranges of bytes. */
export interface ByteRanges {
  readonly bytes: Buffer;
  /** [N]: where each value starts and ends in `bytes`. */
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  /** [N], only where a value may be null: 1 for a value, 0 for null. */
  readonly present?: Uint32Array | undefined;
}

interface PageBytes {
  readonly bytes: Buffer;
  readonly codec: ParquetCodec;
  /** Bytes of the page, decompressed. */
  readonly length: number;
  readonly numValues: number;
}

/** Decodes a dictionary page. Throws an Error when its values do not fill it exactly. */
export function decodeDictionary({ bytes, codec, length, numValues }: PageBytes): ByteRanges {
  const cursor = new ByteCursor(decompressPage({ bytes, codec, length }));
  return readPlain(cursor, numValues);
}

/** Decodes a data page. Throws an Error when its levels and values do not fit its header. */
export function decodePage(
  page: PageBytes & {
    readonly settings: ThriftStruct;
    readonly isV2: boolean;
    readonly optional: boolean;
    readonly dictionary: ByteRanges | undefined;
  },
): ByteRanges {
  const { numValues, settings, isV2, dictionary } = page;
  const { present, cursor } = isV2 ? openPageV2(page) : openPage(page);
  const numPresent = present === undefined ? numValues : present.reduce((sum, level) => sum + level, 0);
  const encoding = isV2 ? settings.field_4 : settings.field_2;
  const values = readValues({ cursor, encoding, count: numPresent, dictionary });
  return numPresent === numValues ? values : { ...spread(values, present!), present };
}

/** Version 1: levels and values are compressed together. */
function openPage(page: PageBytes & { settings: ThriftStruct; optional: boolean }) {
  const { settings, optional, numValues } = page;
  const cursor = new ByteCursor(decompressPage(page));
  if (!optional) return { cursor, present: undefined };
  if (settings.field_3 !== runLengths) {
    throw new Error(`its levels have the encoding ${String(settings.field_3)}, which is not supported`);
  }
  return { present: readLevels(cursor.take(cursor.unsigned(4)), numValues), cursor };
}

/** Version 2: levels come first and are not compressed; the header counts nulls and rows. */
function openPageV2(page: PageBytes & { settings: ThriftStruct; optional: boolean }) {
  const { bytes, length, settings, optional, numValues } = page;
  const numNulls = countField(settings.field_2, 'number of nulls');
  const numRows = countField(settings.field_3, 'number of rows');
  const levelBytes = countField(settings.field_5, 'length of levels');
  const repetitionBytes = countField(settings.field_6, 'length of repetition levels');
  if (numRows !== numValues) throw new Error(`it has a page of ${numValues} values for ${numRows} rows`);
  if (repetitionBytes !== 0) throw new Error('it has repetition levels');
  const cursor = new ByteCursor(bytes);
  const levels = cursor.take(levelBytes);
  const present = optional ? readLevels(levels, numValues) : undefined;
  const nullLevels = present === undefined ? 0 : numValues - present.reduce((sum, level) => sum + level, 0);
  if (nullLevels !== numNulls) throw new Error(`it has ${nullLevels} nulls, its header gives ${numNulls}`);
  const codec = settings.field_7 === false ? 'UNCOMPRESSED' : page.codec;
  const rest = cursor.take(cursor.remaining);
  if (length < levelBytes) throw new Error('it has levels that are longer than the page');
  // A page of nulls may leave out the compressed nothing.
  const values =
    rest.length === 0 && length === levelBytes
      ? rest
      : decompressPage({ bytes: rest, codec, length: length - levelBytes });
  return { present, cursor: new ByteCursor(values) };
}

function readLevels(bytes: Buffer, numValues: number): Uint32Array {
  return readHybridIntegers({ cursor: new ByteCursor(bytes), bitWidth: 1, count: numValues });
}

function readValues(options: {
  cursor: ByteCursor;
  encoding: unknown;
  count: number;
  dictionary: ByteRanges | undefined;
}): ByteRanges {
  const { cursor, encoding, count, dictionary } = options;
  switch (encoding) {
    case plain:
      return readPlain(cursor, count);
    case plainDictionary:
    case dictionaryIndices:
      return lookUp({ cursor, count, dictionary });
    case deltaLengthByteArray:
      return readDeltaLength(cursor, count);
    case deltaByteArray:
      return readDelta(cursor, count);
    default:
      throw new Error(`its texts have the encoding ${String(encoding)}, which is not supported`);
  }
}

/** Each value with its length before it. */
function readPlain(cursor: ByteCursor, count: number): ByteRanges {
  // Four bytes of length each: a count that the page cannot hold takes no memory.
  if (count > cursor.remaining / 4) throw new Error(`it has ${count} values in ${cursor.remaining} bytes`);
  const starts = new Uint32Array(count);
  const ends = new Uint32Array(count);
  for (let i = 0; i < count; i++) {
    const length = cursor.unsigned(4);
    starts[i] = cursor.skip(length);
    ends[i] = cursor.position;
  }
  checkEnd(cursor);
  return { bytes: cursor.bytes, starts, ends };
}

function lookUp(options: {
  cursor: ByteCursor;
  count: number;
  dictionary: ByteRanges | undefined;
}): ByteRanges {
  const { cursor, count, dictionary } = options;
  if (dictionary === undefined) throw new Error('it has no dictionary');
  const starts = new Uint32Array(count);
  const ends = new Uint32Array(count);
  // A page of nulls may have nothing here.
  const bitWidth = count === 0 && cursor.remaining === 0 ? 0 : cursor.unsigned(1);
  const indices = readHybridIntegers({ cursor, bitWidth, count });
  for (let i = 0; i < count; i++) {
    const index = indices[i]!;
    if (index >= dictionary.starts.length) {
      throw new Error(`it names entry ${index} of a dictionary of ${dictionary.starts.length}`);
    }
    starts[i] = dictionary.starts[index]!;
    ends[i] = dictionary.ends[index]!;
  }
  return { bytes: dictionary.bytes, starts, ends };
}

function readDeltaLength(cursor: ByteCursor, count: number): ByteRanges {
  const lengths = readDeltaLengths(cursor, count);
  const starts = new Uint32Array(count);
  const ends = new Uint32Array(count);
  for (let i = 0; i < count; i++) {
    starts[i] = cursor.skip(lengths[i]!);
    ends[i] = cursor.position;
  }
  checkEnd(cursor);
  return { bytes: cursor.bytes, starts, ends };
}

/** Each value as what it shares with the start of the one before, and the rest. */
function readDelta(cursor: ByteCursor, count: number): ByteRanges {
  const shared = readDeltaLengths(cursor, count);
  const lengths = readDeltaLengths(cursor, count);
  let total = 0;
  for (let i = 0; i < count; i++) {
    const before = i === 0 ? 0 : shared[i - 1]! + lengths[i - 1]!;
    if (shared[i]! > before) throw new Error(`it shares ${shared[i]} bytes with a text of ${before}`);
    total += shared[i]! + lengths[i]!;
  }
  if (total > maximumDeltaBytes)
    throw new Error(`it has a page of ${total} bytes; at most ${maximumDeltaBytes}`);
  const bytes = Buffer.allocUnsafeSlow(total);
  const starts = new Uint32Array(count);
  const ends = new Uint32Array(count);
  let filled = 0;
  for (let i = 0; i < count; i++) {
    const before = i === 0 ? 0 : starts[i - 1]!;
    starts[i] = filled;
    bytes.copyWithin(filled, before, before + shared[i]!);
    filled += shared[i]!;
    filled += cursor.take(lengths[i]!).copy(bytes, filled);
    ends[i] = filled;
  }
  checkEnd(cursor);
  return { bytes, starts, ends };
}

const maximumDeltaBytes = 1 << 30;

/** Only indices may be padded: what is behind plain values is a value that is missing. */
function checkEnd(cursor: ByteCursor): void {
  if (cursor.remaining > 0) throw new Error(`it has ${cursor.remaining} bytes behind the values of a page`);
}

/** Puts P values at the places of N that are not null. */
function spread(values: ByteRanges, present: Uint32Array): ByteRanges {
  const starts = new Uint32Array(present.length);
  const ends = new Uint32Array(present.length);
  let next = 0;
  for (let i = 0; i < present.length; i++) {
    if (present[i] === 0) continue;
    starts[i] = values.starts[next]!;
    ends[i] = values.ends[next++]!;
  }
  return { bytes: values.bytes, starts, ends };
}
