import { closeSync, existsSync, mkdirSync, openSync, unlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import { DataError, UsageError } from '@mtl/errors';
import { BinaryFileWriter, readFully, renameFileSync, syncDirectory, temporaryPath } from '@mtl/errors/files';
import { indexedDatasetPaths, indexHeaderBytes, indexMagic, indexVersion } from './index-file.js';
import { IndexedDataset } from './indexed-dataset.js';
import { refuseExistingDataset } from './refuse-existing.js';
import { type TokenArray, type TokenDtype, type TokenDtypeFormat, tokenDtypes } from './token-dtype.js';

const copyBytes = 1 << 20;

/** Sizes of a finished dataset. */
export interface IndexedDatasetSummary {
  readonly prefix: string;
  readonly dtype: TokenDtype;
  readonly numDocuments: number;
  readonly numSequences: number;
  readonly numTokens: number;
}

/** Settings of a writer. */
interface IndexedDatasetWriterOptions {
  /** The output path without `.bin` or `.idx`. Missing directories are created. */
  readonly prefix: string;
  readonly dtype: TokenDtype;
  /** True to write a mode (int8) for every sequence, as in multimodal datasets. */
  readonly multimodal?: boolean;
}

/**
 * Writes an indexed dataset whose bytes are the same as if Megatron had written it. All data, including
 * lengths and document boundaries, are streamed to files with temporary names, so a corpus of any size needs
 * only a few MiB of memory. `finish` syncs and renames the files, so a crash never leaves an incomplete
 * dataset under the final name. An existing dataset with the same prefix is replaced.
 */
export class IndexedDatasetWriter {
  readonly prefix: string;
  readonly dtype: TokenDtype;
  readonly #format: TokenDtypeFormat;
  readonly #tokens: BinaryFileWriter;
  readonly #lengths: BinaryFileWriter;
  readonly #documents: BinaryFileWriter;
  readonly #modes: BinaryFileWriter | undefined;
  #numSequences = 0;
  #numDocuments = 0;
  #finished = false;

  constructor({ prefix, dtype, multimodal = false }: IndexedDatasetWriterOptions) {
    const paths = indexedDatasetPaths(prefix);
    this.prefix = paths.prefix;
    this.dtype = dtype;
    this.#format = tokenDtypes[dtype];
    if (this.#format === undefined) {
      throw new UsageError('MTL_DATA_DTYPE', `unknown element type ${dtype}`, {
        expected: Object.keys(tokenDtypes).join(', '),
      });
    }
    mkdirSync(dirname(paths.binPath), { recursive: true });
    this.#tokens = new BinaryFileWriter({ path: temporaryPath(paths.binPath) });
    this.#lengths = new BinaryFileWriter({ path: temporaryPath(`${paths.idxPath}.lengths`) });
    this.#documents = new BinaryFileWriter({ path: temporaryPath(`${paths.idxPath}.documents`) });
    this.#modes = multimodal
      ? new BinaryFileWriter({ path: temporaryPath(`${paths.idxPath}.modes`) })
      : undefined;
    this.#documents.writeInt64(0);
  }

  /**
   * Appends a sequence. `mode` is ignored unless the dataset is multimodal. Throws if a token is outside the
   * dtype's range.
   */
  addSequence(tokens: ArrayLike<number> | BigInt64Array, mode = 0): void {
    this.#tokens.write(this.#encode(tokens));
    this.#addLength(tokens.length, mode);
  }

  /** Ends the current document. A document without sequences is valid and empty. */
  endDocument(): void {
    this.#documents.writeInt64(this.#numSequences);
    this.#numDocuments++;
  }

  /**
   * Appends documents that consist of a single sequence each. `tokens` contains all documents, concatenated,
   * and `lengths` contains their token counts. A length of 0 is an empty document, as in Megatron's
   * preprocessing.
   */
  addDocuments(tokens: TokenArray, lengths: ArrayLike<number>): void {
    const isFilled = (length: number): boolean => length > 0;
    this.addSequencesOfDocuments({
      tokens,
      lengths: Array.from(lengths).filter(isFilled),
      sequences: Array.from(lengths, (length) => Number(isFilled(length))),
    });
  }

  /**
   * Appends documents. `tokens` contains all sequences, concatenated; `lengths` contains the token count of
   * every sequence, and `sequences` the sequence count of every document.
   */
  addSequencesOfDocuments(options: {
    readonly tokens: TokenArray;
    readonly lengths: ArrayLike<number>;
    readonly sequences: ArrayLike<number>;
  }): void {
    const { tokens, lengths, sequences } = options;
    this.#tokens.write(this.#encode(tokens));
    let total = 0;
    let sequence = 0;
    for (let document = 0; document < sequences.length; document++) {
      for (const end = sequence + sequences[document]!; sequence < end; sequence++) {
        total += lengths[sequence]!;
        this.#addLength(lengths[sequence]!, 0);
      }
      this.endDocument();
    }
    if (total !== tokens.length || sequence !== lengths.length) {
      throw new UsageError(
        'MTL_DATA_LENGTHS',
        `lengths of ${sequence} sequences sum to ${total}, there are ${tokens.length} tokens`,
        { expected: `${lengths.length} sequences whose lengths sum to the number of tokens` },
      );
    }
  }

  /**
   * Appends all sequences and documents of `dataset`, which must have the same element type as this dataset.
   */
  addDataset(dataset: IndexedDataset): void {
    if (dataset.dtype !== this.dtype) {
      throw new DataError('MTL_DATA_DTYPE_MISMATCH', `${dataset.prefix} holds ${dataset.dtype} tokens`, {
        expected: `${this.dtype}, as ${this.prefix} does`,
        remedy: 'prepare the datasets with tokenizers whose vocabularies lead to the same element type',
      });
    }
    if ((dataset.sequenceModes !== undefined) !== (this.#modes !== undefined)) {
      throw new DataError(
        'MTL_DATA_MODES_MISMATCH',
        `${dataset.prefix}: only some of the datasets are multimodal`,
        {
          expected: 'modes in all datasets or in none',
        },
      );
    }
    const chunk = Buffer.allocUnsafe(copyBytes);
    for (let position = 0; position < dataset.binBytes; ) {
      const read = dataset.readBytes(chunk, position);
      if (read === 0)
        throw new DataError('MTL_DATA_INDEXED_DATASET', `${dataset.binPath}: became shorter while read`);
      this.#tokens.write(chunk.subarray(0, read));
      position += read;
    }
    const before = this.#numSequences;
    for (let i = 0; i < dataset.numSequences; i++) {
      this.#addLength(dataset.sequenceLengths[i]!, dataset.sequenceModes?.[i] ?? 0);
    }
    for (let i = 1; i < dataset.documentIndices.length; i++) {
      this.#documents.writeInt64(before + dataset.documentIndices[i]!);
      this.#numDocuments++;
    }
  }

  /** Writes the index, syncs both files, and renames them to their final names. */
  finish(): IndexedDatasetSummary {
    if (this.#finished) throw new UsageError('MTL_DATA_WRITER_FINISHED', `${this.prefix}: already finished`);
    const { binPath, idxPath } = indexedDatasetPaths(this.prefix);
    const index = new BinaryFileWriter({ path: temporaryPath(idxPath) });
    try {
      this.#tokens.finish();
      for (const part of [this.#lengths, this.#documents, this.#modes]) part?.finish();
      this.#writeIndex(index);
      // After a crash between the two renames, an old index must not exist together with new tokens. The old
      // index is therefore deleted first, and the new index is renamed last.
      if (existsSync(idxPath)) unlinkSync(idxPath);
      renameFileSync(this.#tokens.path, binPath);
      renameFileSync(index.path, idxPath);
      syncDirectory(idxPath);
    } catch (error) {
      index.discard();
      throw error;
    } finally {
      this.discard();
    }
    return {
      prefix: this.prefix,
      dtype: this.dtype,
      numDocuments: this.#numDocuments,
      numSequences: this.#numSequences,
      numTokens: this.#tokens.byteLength / this.#format.itemSize,
    };
  }

  /** Deletes the temporary files of an unfinished dataset. May be called at any time. */
  discard(): void {
    this.#finished = true;
    for (const part of [this.#tokens, this.#lengths, this.#documents, this.#modes]) part?.discard();
  }

  #addLength(length: number, mode: number): void {
    if (this.#finished) throw new UsageError('MTL_DATA_WRITER_FINISHED', `${this.prefix}: already finished`);
    this.#lengths.writeInt32(length);
    this.#modes?.write(Int8Array.of(mode));
    this.#numSequences++;
  }

  /** Returns `tokens` in the file's element type, after checking that every token is in range. */
  #encode(tokens: ArrayLike<number> | TokenArray): TokenArray {
    if (this.#finished) throw new UsageError('MTL_DATA_WRITER_FINISHED', `${this.prefix}: already finished`);
    const { minimum, maximum, create } = this.#format;
    // An array with the file's element type cannot contain a token that is out of range.
    if (tokens.constructor === create(0).constructor) return tokens as TokenArray;
    const encoded = create(tokens.length);
    for (let i = 0; i < tokens.length; i++) {
      const value = Number(tokens[i]);
      if (!(value >= minimum && value <= maximum) || !Number.isInteger(value)) {
        throw new DataError(
          'MTL_DATA_TOKEN_RANGE',
          `${this.prefix}: token ${value} does not fit ${this.dtype}`,
          {
            expected: `integers from ${minimum} to ${maximum}`,
            remedy: 'give the writer the element type that fits the vocabulary (tokenDtypeForVocabulary)',
          },
        );
      }
      if (encoded instanceof BigInt64Array) encoded[i] = BigInt(value);
      else encoded[i] = value;
    }
    return encoded;
  }

  #writeIndex(index: BinaryFileWriter): void {
    const header = Buffer.alloc(indexHeaderBytes);
    indexMagic.copy(header);
    header.writeBigUInt64LE(BigInt(indexVersion), 9);
    header[17] = this.#format.code;
    header.writeBigUInt64LE(BigInt(this.#numSequences), 18);
    header.writeBigUInt64LE(BigInt(this.#numDocuments + 1), 26);
    index.write(header);
    forEachChunk(this.#lengths.path, (bytes) => index.write(bytes));
    let pointer = 0;
    forEachChunk(this.#lengths.path, (bytes) => {
      const lengths = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
      for (const length of lengths) {
        index.writeInt64(pointer);
        pointer += length * this.#format.itemSize;
      }
    });
    forEachChunk(this.#documents.path, (bytes) => index.write(bytes));
    if (this.#modes !== undefined) forEachChunk(this.#modes.path, (bytes) => index.write(bytes));
    index.finish();
  }
}

/**
 * Calls `use` with successive parts of the file. A part has 1 MiB, which is a multiple of every element size.
 */
function forEachChunk(path: string, use: (bytes: Uint8Array) => void): void {
  const descriptor = openSync(path, 'r');
  try {
    const chunk = new Uint8Array(copyBytes);
    for (let position = 0; ; ) {
      const read = readFully(descriptor, chunk, position);
      if (read === 0) return;
      use(chunk.subarray(0, read));
      position += read;
    }
  } finally {
    closeSync(descriptor);
  }
}

/** The datasets to join, in order. */
interface MergeIndexedDatasetsOptions {
  /** Prefixes of the datasets. */
  readonly inputs: readonly string[];
  /** Prefix of the result. */
  readonly output: string;
  /** True to replace an existing dataset at the output prefix. Default: an existing dataset is an error. */
  readonly overwrite?: boolean;
  /** This function is called after each input. */
  readonly onProgress?: (progress: {
    readonly done: number;
    readonly total: number;
    readonly prefix: string;
  }) => void;
}

/**
 * Joins datasets with the same element type into one, like Megatron's merge: lengths and tokens are
 * concatenated, and document boundaries are shifted. Only one input's index is in memory at a time, because
 * the data are streamed.
 *
 * @throws DataError MTL_DATA_MERGE, _DTYPE_MISMATCH, _MODES_MISMATCH; MTL_DATA_EXISTS if the output already
 *   exists
 */
export function mergeIndexedDatasets(options: MergeIndexedDatasetsOptions): IndexedDatasetSummary {
  const { inputs, output, overwrite = false, onProgress } = options;
  const outputPrefix = indexedDatasetPaths(output).prefix;
  if (inputs.length === 0) {
    throw new DataError('MTL_DATA_MERGE', 'no datasets to merge', {
      expected: 'at least one dataset prefix',
    });
  }
  if (inputs.some((input) => indexedDatasetPaths(input).prefix === outputPrefix)) {
    throw new DataError('MTL_DATA_MERGE', `the output ${outputPrefix} is one of the inputs`, {
      remedy: 'give the merged dataset a prefix of its own',
    });
  }
  if (!overwrite) refuseExistingDataset(output);
  let writer: IndexedDatasetWriter | undefined;
  try {
    for (const [done, prefix] of inputs.entries()) {
      using dataset = IndexedDataset.open(prefix);
      writer ??= new IndexedDatasetWriter({
        prefix: output,
        dtype: dataset.dtype,
        multimodal: dataset.sequenceModes !== undefined,
      });
      writer.addDataset(dataset);
      onProgress?.({ done: done + 1, total: inputs.length, prefix });
    }
    return writer!.finish();
  } finally {
    writer?.discard();
  }
}
