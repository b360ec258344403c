import { nearestName } from '@mtl/errors';
import { deserializeTCompactProtocol } from 'hyparquet/src/thrift.js';
import { readFully } from '../../files/read-fully.js';
import { corpusError } from '../corpus-error.js';
import { type ParquetCodec, parquetCodecs } from './decompress-page.js';
import { countField, structField, structsField, type ThriftStruct, textField } from './parquet-fields.js';

const magic = 'PAR1';
const byteArray = 6;
const typeNames = [
  'BOOLEAN',
  'INT32',
  'INT64',
  'INT96',
  'FLOAT',
  'DOUBLE',
  'BYTE_ARRAY',
  'FIXED_LEN_BYTE_ARRAY',
];
// converted types of BYTE_ARRAY that are texts: UTF8, ENUM; logical types: STRING, ENUM
const textConversions = [0, 4];
const textLogicalTypes = ['field_1', 'field_4'];

/** The part of a column in one row group. */
export interface ColumnChunk {
  /** Where its pages start in the file, and their bytes. */
  readonly start: number;
  readonly length: number;
  readonly codec: ParquetCodec;
  /** Its rows: one value each, null or not. */
  readonly numValues: number;
}

/** A column of texts, as the footer of a file describes it. */
export interface TextColumn {
  readonly optional: boolean;
  readonly chunks: readonly ColumnChunk[];
  readonly numRows: number;
}

/** A file that is open, and the column that is wanted of it. */
export interface TextColumnOptions {
  readonly descriptor: number;
  readonly size: number;
  readonly path: string;
  readonly key: string;
}

/**
 * Reads the footer of a Parquet file and checks the column `key` against it: row groups add up to the rows of
 * the file, each column chunk has a value for each row of its group, and chunks lie inside the file without
 * overlapping. Throws an Error that describes what does not match, or `MTL_DATA_CORPUS` for a column that is
 * missing or is not one of texts.
 */
export function openTextColumn(options: TextColumnOptions): TextColumn {
  const { path, key } = options;
  const { footer, footerStart } = readFooter(options);
  const columns = topLevelColumns(structsField(footer.field_2, 'schema'));
  const column = columns.find(({ name }) => name === key);
  if (column === undefined) throw noSuchColumn(options, columns);
  const kind = kindOf(column);
  if (kind !== undefined) {
    throw corpusError({ path, what: `column "${key}" is ${kind}`, expected: 'a column of texts' });
  }
  const numLeaves = columns.reduce((sum, { leaves }) => sum + leaves, 0);
  const numRows = countField(footer.field_3, 'number of rows');
  const chunks = structsField(footer.field_4, 'list of row groups').map((group, i) => {
    try {
      return columnChunk({ group, column, numLeaves, key, footerStart });
    } catch (cause) {
      throw new Error(`row group ${i}: ${(cause as Error).message}`, { cause });
    }
  });
  const total = chunks.reduce((sum, { numValues }) => sum + numValues, 0);
  if (total !== numRows) throw new Error(`its footer gives ${numRows} rows, its row groups have ${total}`);
  checkDisjoint(chunks);
  return { optional: column.optional, chunks, numRows };
}

function readFooter({ descriptor, size }: TextColumnOptions): { footer: ThriftStruct; footerStart: number } {
  const tail = Buffer.alloc(8);
  if (size < 12 || readFully(descriptor, tail, size - 8) < 8 || tail.toString('latin1', 4) !== magic) {
    throw new Error(`it does not end in ${magic}`);
  }
  const length = tail.readUInt32LE(0);
  if (length > size - 12) throw new Error(`its footer of ${length} bytes is longer than the file`);
  const footerStart = size - 8 - length;
  const bytes = new Uint8Array(length);
  if (readFully(descriptor, bytes, footerStart) < length)
    throw new Error('it became shorter while it was read');
  const reader = { view: new DataView(bytes.buffer), offset: 0 };
  const footer = deserializeTCompactProtocol(reader) as ThriftStruct;
  if (reader.offset !== length) throw new Error(`its footer ends after ${reader.offset} of ${length} bytes`);
  return { footer, footerStart };
}

interface TopLevelColumn {
  readonly name: string;
  readonly element: ThriftStruct;
  readonly optional: boolean;
  /** Columns that it becomes in the file: one, unless it is a struct, list or map. */
  readonly leaves: number;
  /** Those of the columns before it. */
  readonly firstLeaf: number;
}

/** The children of the schema's root, which lists a tree in depth-first order. */
function topLevelColumns(schema: readonly ThriftStruct[]): TopLevelColumn[] {
  let next = 0;
  const leavesBelow = (): number => {
    const element = schema[next++];
    if (element === undefined) throw new Error('its schema is truncated');
    const children = countField(element.field_5 ?? 0, 'number of children');
    if (children === 0) return 1;
    let leaves = 0;
    for (let child = 0; child < children; child++) leaves += leavesBelow();
    return leaves;
  };
  const root = schema[next++];
  const numColumns = countField(root?.field_5, 'number of columns');
  const columns: TopLevelColumn[] = [];
  let firstLeaf = 0;
  for (let i = 0; i < numColumns; i++) {
    const element = schema[next];
    const name = textField(element?.field_4, `name of column ${i}`);
    const leaves = leavesBelow();
    columns.push({ name, element: element!, optional: element!.field_3 === 1, leaves, firstLeaf });
    firstLeaf += leaves;
  }
  if (next !== schema.length) throw new Error(`its schema has ${schema.length - next} elements too many`);
  return columns;
}

/** What a column holds, or nothing for texts. */
function kindOf({ element }: TopLevelColumn): string | undefined {
  const { field_1: type, field_3: repetition, field_5: children, field_6: conversion } = element;
  if (children !== undefined && children !== 0) return 'a struct, list or map';
  if (repetition === 2) return 'a list';
  if (repetition !== 0 && repetition !== 1) throw new Error(`it has the repetition ${String(repetition)}`);
  if (type !== byteArray) return typeNames[type as number] ?? `of the unknown type ${String(type)}`;
  const logical = element.field_10;
  const logicalType = typeof logical === 'object' && logical !== null ? Object.keys(logical)[0] : undefined;
  const isText =
    (conversion === undefined || textConversions.includes(conversion as number)) &&
    (logicalType === undefined || textLogicalTypes.includes(logicalType));
  return isText ? undefined : 'BYTE_ARRAY of something else than texts';
}

function noSuchColumn({ path, key }: TextColumnOptions, columns: readonly TopLevelColumn[]): Error {
  const names = columns.map(({ name }) => name);
  const near = nearestName(key, names);
  return corpusError({
    path,
    what: `has no column "${key}"`,
    expected: names.map((name) => `"${name}"`).join(', ') || 'a column of texts; the file has no columns',
    remedy: `choose the column of the text${near === undefined ? '' : `, for example "${near}"`}`,
  });
}

function columnChunk(options: {
  group: ThriftStruct;
  column: TopLevelColumn;
  numLeaves: number;
  key: string;
  footerStart: number;
}): ColumnChunk {
  const { group, column, numLeaves, key, footerStart } = options;
  const columns = structsField(group.field_1, 'list of columns');
  if (columns.length !== numLeaves)
    throw new Error(`it has ${columns.length} columns, the schema ${numLeaves}`);
  const chunk = columns[column.firstLeaf]!;
  if (chunk.field_1 !== undefined) throw new Error('its columns lie in another file');
  if (chunk.field_8 !== undefined || chunk.field_9 !== undefined) throw new Error('it is encrypted');
  const data = structField(chunk.field_3, 'column metadata');
  const names = Array.isArray(data.field_3) ? data.field_3.map((name) => textField(name, 'column path')) : [];
  if (names.length !== 1 || names[0] !== key)
    throw new Error(`it has "${names.join('.')}" where "${key}" belongs`);
  if (data.field_1 !== byteArray) throw new Error('its type is not that of the schema');
  const numRows = countField(group.field_3, 'number of rows');
  const numValues = countField(data.field_5, 'number of values');
  if (numValues !== numRows) throw new Error(`its column has ${numValues} values for ${numRows} rows`);
  const codec = parquetCodecs[countField(data.field_4, 'codec')];
  if (codec === undefined) throw new Error(`it has the unknown codec ${String(data.field_4)}`);
  const dataStart = countField(data.field_9, 'data page offset');
  const start = countField(data.field_11 ?? 0, 'dictionary page offset') || dataStart;
  const length = countField(data.field_7, 'compressed size');
  // without rows pyarrow writes a dictionary alone, and 0 for the data page that there is not
  const isBeforeData = start <= dataStart || numValues === 0;
  const isInFile = start >= magic.length && start + length <= footerStart;
  if (!(isBeforeData && isInFile) && (numValues > 0 || length > 0)) {
    throw new Error(`its column is at bytes ${start} to ${start + length} of ${footerStart}`);
  }
  return { start, length, codec, numValues };
}

/** Two row groups that share bytes would give the same texts twice. */
function checkDisjoint(chunks: readonly ColumnChunk[]): void {
  let end = 0;
  for (const { start, length } of [...chunks].sort((a, b) => a.start - b.start)) {
    if (length > 0 && start < end) throw new Error(`two of its row groups share the bytes from ${start} on`);
    end = Math.max(end, start + length);
  }
}
