import { isUtf8 } from 'node:buffer';
import { closeSync } from 'node:fs';
import { type DataError, MtlError, nearestName } from '@mtl/errors';
import { fileProblem, openRegularFile, readFully } from '@mtl/errors/files';
import {
  type FileMetaData,
  parquetMetadata,
  parquetSchema,
  type RowGroup,
  type SchemaElement,
} from 'hyparquet';
import { corpusError, type OnBadLine, reportBadLine } from '../corpus-error.js';
import { type ColumnChunk, checkCount, readColumnPages } from './column-pages.js';
import { loadZstd } from './zstd.js';

const magic = 'PAR1';

// The maximum size of a text. A text becomes a string, and a string in V8 has at most 512 MiB.
const maximumTextBytes = 1 << 28;
const replacement = '\ufffd';

/** A text of a column, and the end of its page as an offset in the file. */
interface ColumnText {
  readonly text: string;
  readonly bytes: number;
}

/** A column, and the settings for reading it. */
interface ReadTextColumnOptions {
  readonly path: string;
  readonly key: string;
  /**
   * Receives the error about each row without usable text, which is skipped. Default: the error is thrown.
   */
  readonly onBadRow?: OnBadLine | undefined;
}

/**
 * Opens a file and returns the texts of a column in order. Only one page and a dictionary are in memory. The
 * counts of rows and values in the footer must match the pages, so that a damaged file never results in fewer
 * texts without an error. Throws `MTL_DATA_CORPUS`, which names the row or row group. The file stays open
 * until the last text has been read.
 */
export async function readTextColumn(
  options: ReadTextColumnOptions,
): Promise<Generator<ColumnText, void, undefined>> {
  const { path } = options;
  const { descriptor, size } = attempt(path, () => openRegularFile(path), fileProblem);
  try {
    const chunks = attempt(path, () => openTextColumn({ descriptor, size, ...options }), damage);
    if (chunks.some(({ codec }) => codec === 'ZSTD')) await loadZstd();
    return readTexts({ ...options, descriptor, chunks });
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

function* readTexts(
  options: ReadTextColumnOptions & { readonly descriptor: number; readonly chunks: readonly ColumnChunk[] },
): Generator<ColumnText, void, undefined> {
  const { path, key, onBadRow, descriptor, chunks } = options;
  try {
    const decode = utf8Decoder();
    let row = 0;
    for (const [number, chunk] of chunks.entries()) {
      const pages = readColumnPages(descriptor, chunk);
      const ofGroup = (error: unknown) => damage(`row group ${number}: ${readMessage(error)}`);
      for (;;) {
        const next = attempt(path, () => pages.next(), ofGroup);
        if (next.done) break;
        const { values, end } = next.value;
        for (const value of values) {
          const text = decodeRow({ value, decode, row: row++, path, key });
          if (typeof text === 'string') yield { text, bytes: end };
          else reportBadLine(text, onBadRow);
        }
      }
    }
  } finally {
    closeSync(descriptor);
  }
}

/** Returns the text of a row, or an error about the row. */
function decodeRow(options: {
  value: Uint8Array | undefined;
  decode: (text: Uint8Array) => string;
  row: number;
  path: string;
  key: string;
}): string | DataError {
  const { value, decode, row, path, key } = options;
  const at = () => `row ${row} of column "${key}"`;
  const bad = { path, isBadLine: true };
  if (value === undefined) {
    const expected = 'texts only';
    return corpusError({ ...bad, what: `${at()} is null`, expected, remedy: 'remove such rows' });
  }
  if (value.length > maximumTextBytes) {
    const remedy = 'divide its text into several rows';
    return corpusError({ ...bad, what: `${at()} is longer than ${maximumTextBytes} bytes`, remedy });
  }
  const text = decode(value);
  // the decoder replaces bytes that are not UTF-8 by U+FFFD; only texts with this character are checked,
  // because a check of all texts would take longer than decoding
  if (text.includes(replacement) && !isUtf8(value)) {
    return corpusError({
      ...bad,
      what: `${at()} is not UTF-8`,
      remedy: 'get the file again, or repair the row',
    });
  }
  return text;
}

/**
 * Returns a decoder that keeps a single view of the page for all texts, because creating a view for every
 * text would take longer than decoding a short text.
 */
function utf8Decoder(): (text: Uint8Array) => string {
  let page: Buffer = Buffer.alloc(0);
  return ({ buffer, byteOffset, length }) => {
    if (page.buffer !== buffer) page = Buffer.from(buffer);
    return page.toString('utf8', byteOffset, byteOffset + length);
  };
}

const readMessage = (error: unknown): string => (error instanceof Error ? error.message : String(error));
const damage = (error: unknown): string => `is not a readable Parquet file (${readMessage(error)})`;

/**
 * Runs `step`. An error without a code is replaced by a coded error, whose message is the result of `what`.
 */
function attempt<T>(path: string, step: () => T, what: (error: unknown) => string): T {
  try {
    return step();
  } catch (cause) {
    if (MtlError.isInstance(cause)) throw cause;
    throw corpusError({
      path,
      what: what(cause),
      cause,
      remedy: 'get the file again, or check how it was written',
    });
  }
}

/** An open file, and the column to read. */
interface TextColumnOptions {
  readonly descriptor: number;
  readonly size: number;
  readonly path: string;
  readonly key: string;
}

/**
 * Reads the footer of a Parquet file and checks the column `key`: the row groups add up to the rows of the
 * file, each column chunk has one value per row of its group, and the chunks are within the file and do not
 * overlap. Throws an Error that describes the mismatch, or `MTL_DATA_CORPUS` if the column does not exist or
 * does not contain texts.
 */
function openTextColumn(options: TextColumnOptions): readonly ColumnChunk[] {
  const { key } = options;
  const { metadata, footerStart } = readFooter(options);
  const { children, count } = parquetSchema(metadata);
  if (count !== metadata.schema.length) {
    throw new Error(`its schema has ${metadata.schema.length - count} elements too many`);
  }
  const kindOfColumn = ({ children: inside, element }: (typeof children)[number]): string | undefined =>
    inside.length > 0 ? 'a struct, list or map' : nameKind(element);
  const wrong = (what: string): Error => {
    const texts = children.filter((each) => kindOfColumn(each) === undefined);
    return wrongColumn(options, { what, texts: texts.map(({ element }) => element.name) });
  };
  const column = children.find(({ element }) => element.name === key);
  if (column === undefined) throw wrong(`has no column "${key}"`);
  const { element } = column;
  const kind = kindOfColumn(column);
  if (kind !== undefined) throw wrong(`column "${key}" is ${kind}`);
  const isOptional = element.repetition_type === 'OPTIONAL';
  const chunks = metadata.row_groups.map((group, i) => {
    try {
      return columnChunk({ group, key, isOptional, footerStart });
    } catch (cause) {
      throw new Error(`row group ${i}: ${readMessage(cause)}`, { cause });
    }
  });
  const numRows = checkCount(metadata.num_rows, 'number of rows');
  const total = chunks.reduce((sum, { numValues }) => sum + numValues, 0);
  if (total !== numRows) throw new Error(`its footer gives ${numRows} rows, its row groups have ${total}`);
  checkDisjoint(chunks);
  return chunks;
}

function readFooter({ descriptor, size }: TextColumnOptions): {
  metadata: FileMetaData;
  footerStart: number;
} {
  const tail = Buffer.alloc(8);
  if (size < 12 || readFully(descriptor, tail, size - 8) < 8 || tail.toString('latin1', 4) !== magic) {
    throw new Error(`it does not end in ${magic}`);
  }
  const length = tail.readUInt32LE(0);
  if (length > size - 12) throw new Error(`its footer of ${length} bytes is longer than the file`);
  const footerStart = size - 8 - length;
  const footer = new Uint8Array(length + 8);
  if (readFully(descriptor, footer, footerStart) < footer.length) {
    throw new Error('it became shorter while it was read');
  }
  return { metadata: parquetMetadata(footer, { geoparquet: false }), footerStart };
}

/**
 * Returns the kind of values in a column that does not contain texts; undefined for a column of texts. The
 * column must not have children.
 */
function nameKind({
  type,
  repetition_type,
  converted_type,
  logical_type,
}: SchemaElement): string | undefined {
  if (repetition_type === 'REPEATED') return 'a list';
  if (repetition_type !== 'REQUIRED' && repetition_type !== 'OPTIONAL') {
    throw new Error(`it has the repetition ${String(repetition_type)}`);
  }
  if (type !== 'BYTE_ARRAY') return type ?? 'of an unknown type';
  const types = [converted_type, logical_type?.type];
  const isText = types.every((name) => name === undefined || ['UTF8', 'STRING', 'ENUM'].includes(name));
  return isText ? undefined : 'BYTE_ARRAY of something else than texts';
}

function wrongColumn(
  { path, key }: TextColumnOptions,
  { what, texts }: { readonly what: string; readonly texts: readonly string[] },
): Error {
  const near = nearestName(key, texts) ?? (texts.length === 1 ? texts[0] : undefined);
  const has = texts.length === 0 ? 'none' : texts.map((name) => `"${name}"`).join(', ');
  return corpusError({
    path,
    what,
    expected: `a column of texts; the file has ${has}`,
    remedy: `choose the column of the text${near === undefined ? '' : `, for example "${near}"`}`,
    keys: texts,
    nearestKey: near,
  });
}

function columnChunk(options: {
  group: RowGroup;
  key: string;
  isOptional: boolean;
  footerStart: number;
}): ColumnChunk {
  const { group, key, isOptional, footerStart } = options;
  if (group.columns.some(({ crypto_metadata }) => crypto_metadata !== undefined)) {
    throw new Error('it is encrypted');
  }
  const named = group.columns.filter(
    ({ meta_data }) => meta_data?.path_in_schema.length === 1 && meta_data.path_in_schema[0] === key,
  );
  if (named.length !== 1) throw new Error(`it has ${named.length} columns "${key}"`);
  const { file_path, meta_data } = named[0]!;
  if (file_path !== undefined) throw new Error('its columns are in another file');
  const { type, codec, num_values, data_page_offset, dictionary_page_offset } = meta_data!;
  if (type !== 'BYTE_ARRAY') throw new Error('its type differs from the schema');
  const numRows = checkCount(group.num_rows, 'number of rows');
  const numValues = checkCount(num_values, 'number of values');
  if (numValues !== numRows) throw new Error(`its column has ${numValues} values for ${numRows} rows`);
  const dataStart = checkCount(data_page_offset, 'data page offset');
  const start = checkCount(dictionary_page_offset ?? 0, 'dictionary page offset') || dataStart;
  const length = checkCount(meta_data!.total_compressed_size, 'compressed size');
  // for a column without rows, pyarrow writes only a dictionary page, and writes 0 as the offset of the data
  // page
  const isBeforeData = start <= dataStart || numValues === 0;
  const isInFile = start >= magic.length && start + length <= footerStart;
  if (!(isBeforeData && isInFile) && (numValues > 0 || length > 0)) {
    throw new Error(`its column is at bytes ${start} to ${start + length} of ${footerStart}`);
  }
  return { start, length, codec, numValues, isOptional };
}

/** Throws if row groups share bytes, because the same texts would be read twice. */
function checkDisjoint(chunks: readonly ColumnChunk[]): void {
  let end = 0;
  for (const { start, length } of [...chunks].sort((a, b) => a.start - b.start)) {
    if (length > 0 && start < end) throw new Error(`two of its row groups share the bytes from ${start} on`);
    end = Math.max(end, start + length);
  }
}
