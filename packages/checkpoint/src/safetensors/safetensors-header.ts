import { CheckpointError } from '@mtl/errors';
import { type Dtype, shapeDefect, volumeOfShape } from '@mtl/layout';
import { dtypeBytes, isDtype } from '../tensors/dtype.js';

/** The declaration of a tensor in a safetensors header. */
export interface TensorDeclaration {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/** A tensor in a file, and the location of its bytes. */
export interface SafetensorsEntry extends TensorDeclaration {
  /** The offset in the file at which the tensor's bytes begin. */
  readonly offset: number;
  readonly bytes: number;
}

/** The maximum size of a header in the format, in bytes. */
export const maxHeaderBytes = 100_000_000;

const reserved = '__metadata__';

/** Returns the size of a declared tensor in bytes. */
export function bytesOfDeclaration(tensor: Pick<TensorDeclaration, 'dtype' | 'shape'>): number {
  return volumeOfShape(tensor.shape) * dtypeBytes[tensor.dtype];
}

/** Returns the reason why a file cannot contain `tensors`; undefined if it can. */
function declarationDefect(tensors: readonly TensorDeclaration[]): string | undefined {
  const names = new Set<string>();
  for (const { name, dtype, shape } of tensors) {
    const quoted = JSON.stringify(name);
    if (name === reserved) return `the name ${quoted} is reserved by the format`;
    // A lone surrogate has no UTF-8 encoding, but the header is UTF-8.
    if (Buffer.from(name, 'utf8').toString('utf8') !== name) return `the name ${quoted} is not valid Unicode`;
    if (names.has(name)) return `two tensors are named ${quoted}`;
    names.add(name);
    if (!isDtype(dtype)) return `tensor ${quoted} has the unknown dtype ${JSON.stringify(dtype)}`;
    const defect = shapeDefect(shape);
    if (defect !== undefined) return `tensor ${quoted}: ${defect}`;
  }
  return undefined;
}

/**
 * Encodes the first bytes of a file: 8 bytes of header length (little-endian), then the header as JSON,
 * padded with spaces to a multiple of 8. The tensors follow the header in the given order, without gaps.
 *
 * @throws CheckpointError MTL_SAFETENSORS_DECLARATION for a repeated or reserved name, an unsupported dtype
 *   or an invalid shape
 */
export function encodeSafetensorsHeader(options: {
  readonly tensors: readonly TensorDeclaration[];
  readonly metadata?: Readonly<Record<string, string>>;
}): { readonly header: Uint8Array; readonly entries: readonly SafetensorsEntry[] } {
  const defect = declarationDefect(options.tensors);
  if (defect !== undefined) {
    throw new CheckpointError('MTL_SAFETENSORS_DECLARATION', `cannot write a safetensors file: ${defect}`, {
      expected: `unique names and the dtypes ${Object.keys(dtypeBytes).join(', ')}`,
    });
  }
  // The JSON is written member by member, because an object would lose the key "__proto__" and reorder keys
  // that consist of digits.
  const members: string[] = [];
  if (options.metadata !== undefined) members.push(`"${reserved}":${JSON.stringify(options.metadata)}`);
  let position = 0;
  const relative = options.tensors.map((tensor) => {
    const bytes = bytesOfDeclaration(tensor);
    const begin = position;
    position += bytes;
    const { name, dtype, shape } = tensor;
    members.push(
      `${JSON.stringify(name)}:${JSON.stringify({ dtype, shape, data_offsets: [begin, position] })}`,
    );
    return { name, dtype, shape: [...shape], offset: begin, bytes };
  });
  const json = Buffer.from(`{${members.join(',')}}`, 'utf8');
  const padded = Math.ceil(json.length / 8) * 8;
  if (padded > maxHeaderBytes) {
    throw new CheckpointError('MTL_SAFETENSORS_DECLARATION', `a header of ${padded} bytes is too long`, {
      expected: `at most ${maxHeaderBytes} bytes; write several shards`,
    });
  }
  const header = Buffer.alloc(8 + padded, 0x20);
  header.writeBigUInt64LE(BigInt(padded), 0);
  json.copy(header, 8);
  return { header, entries: relative.map((entry) => ({ ...entry, offset: entry.offset + header.length })) };
}

/**
 * Counts the keys of the outer object and of the objects in it. The count reveals repeated keys, for which
 * JSON.parse silently keeps only the last value.
 */
function countKeys(text: string): number {
  let depth = 0;
  let keys = 0;
  for (let position = 0; position < text.length; position++) {
    const character = text.charCodeAt(position);
    if (character === 0x22) {
      for (position++; text.charCodeAt(position) !== 0x22; position++) {
        if (text.charCodeAt(position) === 0x5c) position++;
      }
    } else if (character === 0x7b || character === 0x5b) depth++;
    else if (character === 0x7d || character === 0x5d) depth--;
    else if (character === 0x3a && depth <= 2) keys++;
  }
  return keys;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Parses a header entry. Its offset is relative to the start of the tensor data. Returns a sentence about the
 * defect if the entry is invalid.
 */
function parseEntry(name: string, value: unknown): SafetensorsEntry | string {
  if (!isRecord(value)) return 'is not an object';
  const { dtype, shape, data_offsets: offsets } = value;
  const unknownKey = Object.keys(value).find((key) => !['dtype', 'shape', 'data_offsets'].includes(key));
  if (unknownKey !== undefined) return `has the unknown key ${JSON.stringify(unknownKey)}`;
  if (!isDtype(dtype)) return `has the unknown dtype ${JSON.stringify(dtype)}`;
  if (!Array.isArray(shape)) return 'has no shape';
  const defect = shapeDefect(shape);
  if (defect !== undefined) return `has a bad shape: ${defect}`;
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every((o) => Number.isSafeInteger(o))) {
    return 'has no pair of data_offsets';
  }
  const [begin, end] = offsets as [number, number];
  if (begin < 0 || end < begin) return `has the data_offsets ${begin}, ${end}`;
  const bytes = bytesOfDeclaration({ dtype, shape: shape as number[] });
  if (end - begin !== bytes) {
    return `takes ${end - begin} bytes where ${dtype} of shape [${shape.join(', ')}] takes ${bytes}`;
  }
  return { name, dtype, shape: shape as number[], offset: begin, bytes };
}

/**
 * Parses and checks the JSON of a header.
 *
 * @param json the header's bytes, without the length field before them
 * @param dataStart the offset of the first byte of tensor data in the file
 * @param fileBytes the size of the file. The tensors must fill the file without gap or overlap
 * @returns entries in the order of their bytes, or a sentence about the defect
 */
export function parseSafetensorsHeader(options: {
  readonly json: Uint8Array;
  readonly dataStart: number;
  readonly fileBytes: number;
}): { readonly entries: SafetensorsEntry[]; readonly metadata: Record<string, string> } | string {
  let text: string;
  let parsed: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(options.json);
    parsed = JSON.parse(text);
  } catch (error) {
    return `its header is not JSON in UTF-8 (${(error as Error).message})`;
  }
  if (!text.startsWith('{') || !isRecord(parsed)) return 'its header is not a JSON object';
  const values = Object.values(parsed);
  const distinct = values.reduce<number>((sum, v) => sum + (isRecord(v) ? Object.keys(v).length : 0), 0);
  if (countKeys(text) !== values.length + distinct) return 'its header names something twice';
  let metadata: Record<string, string> = {};
  const entries: SafetensorsEntry[] = [];
  for (const [name, value] of Object.entries(parsed)) {
    if (name === reserved) {
      if (!isRecord(value) || !Object.values(value).every((text) => typeof text === 'string')) {
        return 'its __metadata__ is not a map of strings';
      }
      // Unlike an assignment, `Object.fromEntries` keeps "__proto__" as an ordinary key.
      metadata = Object.fromEntries(Object.entries(value)) as Record<string, string>;
      continue;
    }
    const entry = parseEntry(name, value);
    if (typeof entry === 'string') return `tensor ${JSON.stringify(name)} ${entry}`;
    entries.push({ ...entry, offset: entry.offset + options.dataStart });
  }
  entries.sort((a, b) => a.offset - b.offset || a.bytes - b.bytes);
  let position = options.dataStart;
  for (const entry of entries) {
    if (entry.offset !== position) {
      const what = entry.offset > position ? 'leaves a gap before' : 'overlaps the tensor before';
      return `tensor ${JSON.stringify(entry.name)} ${what} it`;
    }
    position += entry.bytes;
  }
  if (position !== options.fileBytes) {
    return `its tensors end at byte ${position} but the file at ${options.fileBytes}`;
  }
  return { entries, metadata };
}
