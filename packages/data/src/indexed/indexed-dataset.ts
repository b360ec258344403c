import { closeSync } from 'node:fs';
import { UsageError } from '@mtl/errors';
import { readFully } from '@mtl/errors/files';
import { type IndexFile, indexedDatasetError, openDatasetFile, readIndexFile } from './index-file.js';
import { type TokenArray, type TokenDtype, type TokenDtypeFormat, tokenDtypes } from './token-dtype.js';

/** A slice of a sequence's tokens. */
export interface SequenceSlice {
  /** The index of the sequence in the dataset. */
  readonly sequence: number;
  /** First token (default 0). */
  readonly offset?: number;
  /** The number of tokens. Default: all tokens up to the end of the sequence. */
  readonly length?: number;
}

/**
 * Reads a Megatron indexed dataset, `{prefix}.bin` and `{prefix}.idx`. The index is in memory as typed arrays
 * (20 bytes per sequence). Tokens are read from the file on request, so memory does not grow with their
 * count.
 */
export class IndexedDataset {
  readonly prefix: string;
  readonly #index: IndexFile;
  readonly #format: TokenDtypeFormat;
  #descriptor: number;
  #scratch: TokenArray;

  /**
   * Opens and checks both files. Throws `MTL_DATA_INDEXED_DATASET`, whose message names the file and the
   * problem.
   */
  static open(prefix: string): IndexedDataset {
    return IndexedDataset.fromIndex(readIndexFile(prefix));
  }

  /** Opens the dataset whose index has already been read, possibly by a different thread. */
  static fromIndex(index: IndexFile): IndexedDataset {
    return new IndexedDataset(index, openDatasetFile(index.binPath).descriptor);
  }

  private constructor(index: IndexFile, descriptor: number) {
    this.prefix = index.prefix;
    this.#index = index;
    this.#descriptor = descriptor;
    this.#format = tokenDtypes[index.dtype];
    this.#scratch = this.#format.create(4096);
  }

  /** The checked index. A clone can be sent to a worker thread, which opens the dataset with `fromIndex`. */
  get index(): IndexFile {
    return this.#index;
  }

  get dtype(): TokenDtype {
    return this.#index.dtype;
  }
  get numSequences(): number {
    return this.#index.sequenceLengths.length;
  }
  get numDocuments(): number {
    return this.#index.documentIndices.length - 1;
  }
  get numTokens(): number {
    return this.#index.numTokens;
  }
  /** int32 [numSequences]: the number of tokens in each sequence. */
  get sequenceLengths(): Int32Array {
    return this.#index.sequenceLengths;
  }
  /**
   * float64 [numDocuments + 1]: 0, followed by each document's end: the index of the first sequence after it.
   */
  get documentIndices(): Float64Array {
    return this.#index.documentIndices;
  }
  /** int8 [numSequences]: the mode of each sequence; undefined unless the dataset is multimodal. */
  get sequenceModes(): Int8Array | undefined {
    return this.#index.sequenceModes;
  }
  get binPath(): string {
    return this.#index.binPath;
  }
  get idxPath(): string {
    return this.#index.idxPath;
  }
  get binBytes(): number {
    return this.#index.binBytes;
  }
  get idxBytes(): number {
    return this.#index.idxBytes;
  }

  /** Returns the tokens of a whole sequence or of a slice, in the file's element type. */
  sequence(slice: SequenceSlice | number): TokenArray {
    const { position, length } = this.#locate(typeof slice === 'number' ? { sequence: slice } : slice);
    const tokens = this.#format.create(length);
    this.#read(tokens, position);
    return tokens;
  }

  /**
   * Copies a slice's tokens as int32 into `target`, starting at `targetOffset`, without allocating memory.
   * Returns the token count. Throws if a token is not a 32-bit integer, which is possible only in int64 and
   * floating-point datasets.
   */
  copySequence(
    slice: SequenceSlice & { readonly target: Int32Array; readonly targetOffset?: number },
  ): number {
    const { position, length } = this.#locate(slice);
    const { target, targetOffset = 0 } = slice;
    if (length > target.length - targetOffset) {
      throw targetTooSmall(length, target.length - targetOffset);
    }
    this.#copy({ position, length, target, targetOffset, slice });
    return length;
  }

  /** Returns the total number of tokens in the sequences [first, end). */
  countTokens({ first, end }: { readonly first: number; readonly end: number }): number {
    if (!Number.isInteger(first) || first < 0 || first >= end) {
      throw outOfRange('sequence', first, this.numSequences);
    }
    if (!Number.isInteger(end) || end > this.numSequences) {
      throw outOfRange('sequence', end - 1, this.numSequences);
    }
    const { sequencePointers, binBytes } = this.#index;
    const bytes = (end < this.numSequences ? sequencePointers[end]! : binBytes) - sequencePointers[first]!;
    return bytes / this.#format.itemSize;
  }

  /**
   * Like `copySequence`, but copies the sequences [first, end), with a single read, because they are
   * contiguous in the file.
   */
  copySequences(options: {
    readonly first: number;
    readonly end: number;
    readonly target: Int32Array;
  }): number {
    const { first, target } = options;
    const length = this.countTokens(options);
    if (length > target.length) throw targetTooSmall(length, target.length);
    const position = this.#index.sequencePointers[first]!;
    this.#copy({ position, length, target, targetOffset: 0, slice: { sequence: first } });
    return length;
  }

  /** Returns the document's sequences, as a range [first, end) of sequence indices. */
  documentSequences(document: number): { first: number; end: number } {
    if (!Number.isInteger(document) || document < 0 || document >= this.numDocuments) {
      throw outOfRange('document', document, this.numDocuments);
    }
    return { first: this.documentIndices[document]!, end: this.documentIndices[document + 1]! };
  }

  /**
   * Fills `view` with raw bytes of the .bin file, starting at byte `position`, and returns how many bytes
   * were read. Used to stream the complete file.
   */
  readBytes(view: ArrayBufferView, position: number): number {
    return readFully(this.#openDescriptor(), view, position);
  }

  close(): void {
    if (this.#descriptor >= 0) closeSync(this.#descriptor);
    this.#descriptor = -1;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #locate(slice: SequenceSlice): { position: number; length: number } {
    const { sequence, offset = 0 } = slice;
    if (!Number.isInteger(sequence) || sequence < 0 || sequence >= this.numSequences) {
      throw outOfRange('sequence', sequence, this.numSequences);
    }
    const available = this.sequenceLengths[sequence]!;
    const length = slice.length ?? available - offset;
    if (!(offset >= 0 && length >= 0 && offset + length <= available)) {
      throw new UsageError(
        'MTL_DATA_SLICE',
        `tokens ${offset} to ${offset + length} of sequence ${sequence}`,
        {
          expected: `a part of its ${available} tokens`,
        },
      );
    }
    return {
      position: this.#index.sequencePointers[sequence]! + offset * this.#format.itemSize,
      length,
    };
  }

  #read(view: ArrayBufferView, position: number): void {
    if (readFully(this.#openDescriptor(), view, position) !== view.byteLength) {
      throw indexedDatasetError(this.binPath, `became shorter than its .idx file says after it was opened`);
    }
  }

  #copy(options: {
    position: number;
    length: number;
    target: Int32Array;
    targetOffset: number;
    slice: SequenceSlice;
  }): void {
    const { position, length, target, targetOffset, slice } = options;
    if (this.dtype === 'int32') {
      this.#read(target.subarray(targetOffset, targetOffset + length), position);
      return;
    }
    if (this.#scratch.length < length) this.#scratch = this.#format.create(length);
    const tokens = this.#scratch.subarray(0, length);
    this.#read(tokens, position);
    if (tokens instanceof BigInt64Array || tokens instanceof Float32Array || tokens instanceof Float64Array) {
      this.#copyChecked({ tokens, target, targetOffset, slice });
    } else {
      target.set(tokens, targetOffset);
    }
  }

  #openDescriptor(): number {
    if (this.#descriptor < 0)
      throw new UsageError('MTL_DATA_CLOSED', `${this.prefix}: the dataset was closed`);
    return this.#descriptor;
  }

  #copyChecked(options: {
    tokens: BigInt64Array | Float32Array | Float64Array;
    target: Int32Array;
    targetOffset: number;
    slice: SequenceSlice;
  }): void {
    const { tokens, target, targetOffset, slice } = options;
    for (let i = 0; i < tokens.length; i++) {
      const value = Number(tokens[i]);
      if ((value | 0) !== value) {
        throw indexedDatasetError(
          this.binPath,
          `token ${(slice.offset ?? 0) + i} from the start of sequence ${slice.sequence} on is ${value}`,
          { expected: 'an integer of at most 31 bits', remedy: 'check the tokenizer that wrote the dataset' },
        );
      }
      target[targetOffset + i] = value;
    }
  }
}

function targetTooSmall(length: number, room: number): UsageError {
  return new UsageError('MTL_DATA_TARGET_TOO_SMALL', `${length} tokens do not fit into the target`, {
    expected: `room for ${length} tokens, there is room for ${room}`,
  });
}

function outOfRange(kind: string, index: number, count: number): UsageError {
  return new UsageError('MTL_DATA_OUT_OF_RANGE', `${kind} ${index} does not exist`, {
    expected: count > 0 ? `0 to ${count - 1}` : `nothing: the dataset has no ${kind}s`,
  });
}
