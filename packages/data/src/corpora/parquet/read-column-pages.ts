import { crc32 } from 'node:zlib';
import { deserializeTCompactProtocol } from 'hyparquet/src/thrift.js';
import { readFully } from '../../files/read-fully.js';
import { type ByteRanges, decodeDictionary, decodePage } from './decode-page.js';
import type { ColumnChunk } from './open-text-column.js';
import { countField, structField, type ThriftStruct } from './parquet-fields.js';

// A header with its statistics is short; it is read with more bytes when it turns out to be longer.
const headerBytes = 1 << 12;
/** Beyond what any writer makes, and what a damaged header may claim without taking memory. */
const maximumPageBytes = 1 << 30;
const maximumPageValues = 1 << 26;
const dataPage = 0;
const dictionaryPage = 2;
const dataPageV2 = 3;

/** The values of one data page: a text of `bytes` each, or null. */
export interface TextPage extends ByteRanges {
  /** Bytes of the file up to the end of this page. */
  readonly end: number;
}

/**
 * Decodes a column chunk page by page, with memory for one page and the dictionary. Its pages must fill the
 * chunk exactly and hold `numValues` values together. Throws an Error that describes what does not match.
 */
export function* readColumnPages(options: {
  readonly descriptor: number;
  readonly chunk: ColumnChunk;
  readonly optional: boolean;
}): Generator<TextPage, void, undefined> {
  const { descriptor, chunk, optional } = options;
  const { codec } = chunk;
  const end = chunk.start + chunk.length;
  let position = chunk.start;
  let dictionary: ByteRanges | undefined;
  let numValues = 0;
  while (position < end) {
    const { header, headerLength } = readPageHeader({ descriptor, position, end });
    position += headerLength;
    const { type, compressedLength, length } = pageSizes(header, end - position);
    const bytes = readBytes({ descriptor, position, length: compressedLength });
    position += compressedLength;
    if (header.field_4 !== undefined && (crc32(bytes) | 0) !== header.field_4) {
      throw new Error('a page does not have its checksum');
    }
    if (type === dictionaryPage) {
      if (dictionary !== undefined || numValues > 0) throw new Error('it has a dictionary in its middle');
      const settings = structField(header.field_7, 'dictionary page header');
      dictionary = decodeDictionary({ bytes, codec, length, numValues: pageValues(settings) });
      continue;
    }
    if (type !== dataPage && type !== dataPageV2)
      throw new Error(`it has a page of the unknown type ${type}`);
    const isV2 = type === dataPageV2;
    const settings = structField(isV2 ? header.field_8 : header.field_5, 'data page header');
    const count = pageValues(settings);
    if (count > chunk.numValues - numValues) {
      throw new Error(`its pages have more values than the ${chunk.numValues} that the footer gives`);
    }
    numValues += count;
    const page = { bytes, codec, length, numValues: count, settings, isV2, optional, dictionary };
    yield { ...decodePage(page), end: position };
  }
  if (numValues !== chunk.numValues) {
    throw new Error(`its pages have ${numValues} values, the footer gives ${chunk.numValues}`);
  }
}

function readPageHeader(options: { descriptor: number; position: number; end: number }): {
  header: ThriftStruct;
  headerLength: number;
} {
  const { descriptor, position, end } = options;
  for (let room = headerBytes; ; room *= 8) {
    const length = Math.min(room, end - position);
    const bytes = readBytes({ descriptor, position, length });
    const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, length), offset: 0 };
    try {
      const header = deserializeTCompactProtocol(reader) as ThriftStruct;
      if (reader.offset <= length) return { header, headerLength: reader.offset };
    } catch (cause) {
      if (length === end - position) {
        throw new Error(`it has a malformed page header (${(cause as Error).message})`, { cause });
      }
    }
  }
}

function pageSizes(header: ThriftStruct, available: number) {
  const type = countField(header.field_1, 'page type');
  const length = countField(header.field_2, 'page size');
  const compressedLength = countField(header.field_3, 'compressed page size');
  if (compressedLength > available) {
    throw new Error(`it has a page of ${compressedLength} bytes where ${available} are left`);
  }
  if (length > maximumPageBytes) {
    throw new Error(`it has a page of ${length} bytes; at most ${maximumPageBytes} can be read`);
  }
  return { type, length, compressedLength };
}

/** Data page headers of both versions and dictionary headers have the number of values first. */
function pageValues(settings: ThriftStruct): number {
  const count = countField(settings.field_1, 'number of values in a page');
  if (count <= maximumPageValues) return count;
  throw new Error(`it has a page of ${count} values; at most ${maximumPageValues} can be read`);
}

function readBytes(options: { descriptor: number; position: number; length: number }): Buffer {
  const bytes = Buffer.allocUnsafeSlow(options.length);
  if (readFully(options.descriptor, bytes, options.position) === bytes.length) return bytes;
  throw new Error('it became shorter while it was read');
}
