import { closeSync, readdirSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { DataError } from '@mtl/errors';
import { IrregularFileError, openRegularFile, readFully } from '@mtl/errors/files';
import { int64BitsToFloat64, sharedFloat64Array, sharedInt32Array } from '../files/typed-arrays.js';
import { type TokenDtype, type TokenDtypeFormat, tokenDtypeOfCode, tokenDtypes } from './token-dtype.js';

// In the shapes below, S is the number of sequences and D the number of documents.

/**
 * The contents of an .idx file, checked for consistency and against the length of the .bin file. The large
 * arrays are in shared memory, so that a worker thread can use a clone of this object directly.
 */
export interface IndexFile {
  readonly prefix: string;
  readonly binPath: string;
  readonly idxPath: string;
  readonly dtype: TokenDtype;
  /** int32 [S]: the number of tokens in each sequence. */
  readonly sequenceLengths: Int32Array;
  /** float64 [S]: the byte offset of each sequence in the .bin file. The values are exact integers. */
  readonly sequencePointers: Float64Array;
  /** float64 [D + 1]: 0, followed by each document's end: the index of the first sequence after it. */
  readonly documentIndices: Float64Array;
  /** int8 [S]: the mode of each sequence; undefined unless the dataset is multimodal. */
  readonly sequenceModes: Int8Array | undefined;
  readonly numTokens: number;
  readonly binBytes: number;
  readonly idxBytes: number;
}

/**
 * Reads and checks `{prefix}.idx`: magic number, version, element type, lengths, pointers, document
 * boundaries, and the length of `{prefix}.bin`. Compares section sizes with the file's real length before
 * allocating memory. Throws `MTL_DATA_INDEXED_DATASET`, whose message names the file and the problem.
 */
export function readIndexFile(prefixOrFile: string): IndexFile {
  const { prefix, binPath, idxPath } = indexedDatasetPaths(prefixOrFile);
  const bin = openDatasetFile(binPath);
  closeSync(bin.descriptor);
  const binBytes = bin.size;
  const { descriptor, size: idxBytes } = openDatasetFile(idxPath);
  try {
    const header = readHeader(descriptor, idxPath, idxBytes);
    const sections = readSections(descriptor, idxPath, header);
    const numTokens = checkSequences({ ...sections, dtype: header.dtype, binBytes, binPath, idxPath });
    checkDocuments(sections.documentIndices, header.numSequences, idxPath);
    return { prefix, binPath, idxPath, dtype: header.dtype.name, ...sections, numTokens, binBytes, idxBytes };
  } finally {
    closeSync(descriptor);
  }
}

interface Header {
  readonly dtype: TokenDtypeFormat;
  readonly numSequences: number;
  readonly numDocumentIndices: number;
  readonly multimodal: boolean;
}

/** Opens a dataset's .bin or .idx file. Throws `MTL_DATA_INDEXED_DATASET` if this fails. */
export function openDatasetFile(path: string): { readonly descriptor: number; readonly size: number } {
  try {
    return openRegularFile(path);
  } catch (cause) {
    throw missing(path, cause);
  }
}

function missing(path: string, cause: unknown): Error {
  if (cause instanceof IrregularFileError) return indexedDatasetError(path, cause.message, { cause });
  const reason = (cause as NodeJS.ErrnoException).code;
  if (reason !== 'ENOENT' && reason !== 'ENOTDIR') {
    return indexedDatasetError(path, `cannot be opened (${reason ?? String(cause)})`, {
      cause,
      remedy: 'check the permissions of the file',
    });
  }
  const present = datasetsNextTo(path);
  return indexedDatasetError(path, 'no such file', {
    cause,
    expected: 'both PREFIX.bin and PREFIX.idx of an indexed dataset',
    remedy:
      present.length > 0
        ? `that directory holds these prefixes: ${present.slice(0, 8).join(', ')}`
        : 'give the prefix without .bin or .idx (it ends in _text_document), or make the dataset first',
  });
}

function datasetsNextTo(path: string): string[] {
  try {
    const names = readdirSync(dirname(path));
    return names.filter((name) => name.endsWith('.idx')).map((name) => basename(name, '.idx'));
  } catch {
    return [];
  }
}

function readHeader(descriptor: number, idxPath: string, idxBytes: number): Header {
  const bytes = Buffer.alloc(indexHeaderBytes);
  const read = readFully(descriptor, bytes, 0);
  if (read < indexMagic.length || !bytes.subarray(0, indexMagic.length).equals(indexMagic)) {
    throw indexedDatasetError(idxPath, 'is not the index of an indexed dataset (its first bytes are wrong)', {
      expected: 'a file that starts with MMIDIDX',
    });
  }
  if (read < indexHeaderBytes) {
    throw indexedDatasetError(idxPath, `is truncated after ${read} bytes, inside its header`, {
      expected: `${indexHeaderBytes} bytes of header`,
    });
  }
  const version = bytes.readBigUInt64LE(9);
  if (version !== BigInt(indexVersion)) {
    throw indexedDatasetError(idxPath, `has format version ${version}`, {
      expected: `version ${indexVersion}`,
    });
  }
  const dtype = tokenDtypeOfCode(bytes[17]!);
  if (dtype === undefined) {
    const known = Object.values(tokenDtypes).map((format) => `${format.code} ${format.name}`);
    throw indexedDatasetError(idxPath, `has the unknown element type ${bytes[17]}`, {
      expected: known.join(', '),
    });
  }
  const numSequences = Number(bytes.readBigUInt64LE(18));
  const numDocumentIndices = Number(bytes.readBigUInt64LE(26));
  const expectedBytes = indexHeaderBytes + 12 * numSequences + 8 * numDocumentIndices;
  const multimodal = idxBytes === expectedBytes + numSequences && numSequences > 0;
  if (idxBytes !== expectedBytes && !multimodal) {
    throw indexedDatasetError(
      idxPath,
      `is ${idxBytes} bytes long, but its header announces ${numSequences} sequences and ` +
        `${numDocumentIndices} document boundaries`,
      {
        expected: `${expectedBytes} bytes${numSequences > 0 ? `, or ${expectedBytes + numSequences} with modes` : ''}`,
      },
    );
  }
  return { dtype, numSequences, numDocumentIndices, multimodal };
}

function readSections(descriptor: number, idxPath: string, header: Header) {
  const { numSequences, numDocumentIndices, multimodal } = header;
  let position = indexHeaderBytes;
  const section = <T extends ArrayBufferView>(view: T): T => {
    if (readFully(descriptor, view, position) !== view.byteLength) {
      throw indexedDatasetError(idxPath, 'became shorter while it was read');
    }
    position += view.byteLength;
    return view;
  };
  const sequenceLengths = section(sharedInt32Array(numSequences));
  const sequencePointers = int64BitsToFloat64(section(sharedFloat64Array(numSequences)));
  const documentIndices = int64BitsToFloat64(section(sharedFloat64Array(numDocumentIndices)));
  const sequenceModes = multimodal ? section(new Int8Array(numSequences)) : undefined;
  return { sequenceLengths, sequencePointers, documentIndices, sequenceModes };
}

function checkSequences(options: {
  sequenceLengths: Int32Array;
  sequencePointers: Float64Array;
  dtype: TokenDtypeFormat;
  binBytes: number;
  binPath: string;
  idxPath: string;
}): number {
  const { sequenceLengths, sequencePointers, dtype, binBytes, binPath, idxPath } = options;
  let offset = 0;
  for (let i = 0; i < sequenceLengths.length; i++) {
    const length = sequenceLengths[i]!;
    if (length < 0) throw indexedDatasetError(idxPath, `sequence ${i} has the negative length ${length}`);
    if (sequencePointers[i] !== offset) {
      throw indexedDatasetError(
        idxPath,
        `sequence ${i} points to byte ${sequencePointers[i]} of the .bin file`,
        {
          expected: `${offset}, where the sequence before it ends`,
        },
      );
    }
    offset += length * dtype.itemSize;
  }
  if (offset !== binBytes) {
    throw indexedDatasetError(binPath, `is ${binBytes} bytes long, which does not fit its .idx file`, {
      expected: `${offset} bytes (${offset / dtype.itemSize} tokens of type ${dtype.name})`,
    });
  }
  return offset / dtype.itemSize;
}

function checkDocuments(documentIndices: Float64Array, numSequences: number, idxPath: string): void {
  if (documentIndices.length === 0 || documentIndices[0] !== 0) {
    throw indexedDatasetError(idxPath, 'has document boundaries that do not start at sequence 0');
  }
  for (let i = 1; i < documentIndices.length; i++) {
    if (!(documentIndices[i]! >= documentIndices[i - 1]!)) {
      throw indexedDatasetError(idxPath, `document ${i - 1} ends at sequence ${documentIndices[i]}`, {
        expected: `${documentIndices[i - 1]} or more, where the document before it ends`,
      });
    }
  }
  const last = documentIndices[documentIndices.length - 1]!;
  if (last > numSequences) {
    throw indexedDatasetError(idxPath, `its documents end at sequence ${last}`, {
      expected: `at most ${numSequences}, the number of sequences`,
    });
  }
}

/** The magic number: the first bytes of every .idx file. */
export const indexMagic = Buffer.from('MMIDIDX\0\0', 'latin1');
/** The version of the format; no other version exists. */
export const indexVersion = 1;
/**
 * The header's size in bytes: magic number 9, version 8, dtype code 1, sequence count 8, document index count
 * 8.
 */
export const indexHeaderBytes = 34;

/** Returns the paths of a dataset's two files. `prefix` may also be the path of either file. */
export function indexedDatasetPaths(prefix: string): { prefix: string; binPath: string; idxPath: string } {
  const bare = prefix.endsWith('.bin') || prefix.endsWith('.idx') ? prefix.slice(0, -4) : prefix;
  return { prefix: bare, binPath: `${bare}.bin`, idxPath: `${bare}.idx` };
}

/** Returns the error for an indexed dataset that is missing, truncated or inconsistent. */
export function indexedDatasetError(
  path: string,
  what: string,
  options: { expected?: string; remedy?: string; details?: Record<string, unknown>; cause?: unknown } = {},
): DataError {
  return new DataError('MTL_DATA_INDEXED_DATASET', `${path}: ${what}`, {
    remedy: 'write the dataset again from its corpus, or copy both the .bin and the .idx file again',
    ...options,
    details: { path, ...options.details },
  });
}
