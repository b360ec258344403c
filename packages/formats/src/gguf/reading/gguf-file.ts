import type { FileHandle } from 'node:fs/promises';
import { checkValues, type Dtype } from '@mtl/checkpoint';
import { CheckpointError, MtlError } from '@mtl/errors';
import { IrregularFileError, openRegularHandle, readHandleFully } from '@mtl/errors/files';
import type { ValueRange } from '../../huggingface/value-runs.js';
import type { WeightFiles, WeightTerms } from '../../huggingface/weight-files.js';
import { codecs } from '../quantization/codecs.js';
import {
  bytesOfValues,
  findTensorType,
  fitsRows,
  rowLength,
  type TensorType,
  tensorTypes,
} from '../tensor-types.js';
import { type GgufHeader, HeaderCutOff, HeaderDefect, parseHeader, type ReadValue } from './parse-header.js';

/** The wording of error messages about the weights in GGUF files. */
const terms: WeightTerms = {
  code: 'MTL_GGUF_WEIGHTS',
  configuration: 'its metadata',
  remedy: 'use a file as the program that wrote it left it',
  untied: 'a file without output.weight',
};

/** Makes the error for a file that violates the format. */
export const ggufInvalid = (path: string, problem: string): CheckpointError =>
  new CheckpointError('MTL_GGUF_INVALID', `${path} is not a valid GGUF file: ${problem}`, {
    remedy: 'copy or download the file again; `ls -l` shows whether it is shorter than its source',
    details: { path },
    exitCode: 2,
  });

/** A tensor as described in a file's header. */
interface GgufEntry {
  readonly shape: readonly number[];
  /** The dtype of the values that `read` returns. Quantized tensors are decoded to float32. */
  readonly dtype: Dtype;
  /** The number of bytes that `read` returns. */
  readonly bytes: number;
  readonly type: TensorType;
  readonly numValues: number;
  readonly start: number;
}

const dtypes: Partial<Readonly<Record<TensorType, Dtype>>> = {
  F32: 'F32',
  F16: 'F16',
  BF16: 'BF16',
  Q8_0: 'F32',
};
const readableTypes = Object.keys(dtypes).join(', ');

// how many values of a quantized tensor are decoded at a time
const valuesAtOnce = 2 ** 18;
const firstBytes = 2 ** 20;
// the maximum length of a header, which leaves room for more tokens and merges than any known vocabulary has
const mostHeaderBytes = 2 ** 28;

/** Reads and parses a file's header. Each attempt reads more bytes, until the header is complete. */
async function readHeader(handle: FileHandle, path: string, fileBytes: number): Promise<GgufHeader> {
  const most = Math.min(mostHeaderBytes, fileBytes);
  for (let length = Math.min(firstBytes, most); ; length = Math.min(4 * length, most)) {
    const bytes = new Uint8Array(length);
    const done = await readHandleFully({ handle, bytes, position: 0 });
    try {
      return parseHeader(bytes.subarray(0, done), fileBytes);
    } catch (error) {
      if (error instanceof HeaderDefect) throw ggufInvalid(path, error.message);
      if (!(error instanceof HeaderCutOff)) throw error;
      if (length === most) throw ggufInvalid(path, `its header does not end within ${done} bytes`);
    }
  }
}

/** Returns the tensors by name, after checking that they are all within the file and do not overlap. */
function indexEntries({ tensors, dataStart, alignment }: GgufHeader, path: string, fileBytes: number) {
  const entries = new Map<string, GgufEntry>();
  let end = 0;
  for (const { name, shape, typeId, offset } of tensors.toSorted((a, b) => a.offset - b.offset)) {
    const type = findTensorType(typeId);
    const dtype = type && dtypes[type];
    if (type === undefined || dtype === undefined) {
      throw new CheckpointError(
        'MTL_GGUF_DTYPE',
        `${path}: the tensor ${JSON.stringify(name)} is of the type ${type ?? `number ${typeId}`}, which is not read back`,
        { expected: readableTypes, remedy: 'take a file of the model in one of these types', exitCode: 2 },
      );
    }
    const numValues = shape.reduce((product, size) => product * size, 1);
    const isWhole = fitsRows(type, rowLength(shape));
    const bytes = bytesOfValues(type, numValues);
    const isInside = offset % alignment === 0 && offset >= end && dataStart + offset + bytes <= fileBytes;
    if (!isWhole || !isInside) {
      const problem = isWhole ? `at byte ${offset}` : `with rows of ${rowLength(shape)}`;
      throw ggufInvalid(
        path,
        `${JSON.stringify(name)} [${shape.join(', ')}] of ${type} cannot be ${problem}`,
      );
    }
    end = offset + bytes;
    const stored = dtype === 'F32' ? 4 * numValues : bytes;
    entries.set(name, { shape, dtype, bytes: stored, type, numValues, start: dataStart + offset });
  }
  return entries;
}

/**
 * A GGUF file opened for reading. Opening checks the header and the tensors' positions, but not their values.
 * Quantized tensors are read as float32.
 */
export class GgufFile implements WeightFiles {
  readonly path: string;
  readonly metadata: ReadonlyMap<string, ReadValue>;
  readonly tensors: ReadonlyMap<string, GgufEntry>;
  readonly terms = terms;
  readonly readsRanges = true;
  readonly #handle: FileHandle;

  private constructor(path: string, handle: FileHandle, header: GgufHeader, fileBytes: number) {
    this.path = path;
    this.metadata = header.metadata;
    this.tensors = indexEntries(header, path, fileBytes);
    this.#handle = handle;
  }

  /**
   * Opens a file and checks its header.
   *
   * @throws CheckpointError MTL_GGUF_INVALID for a file that violates the format, MTL_GGUF_DTYPE for an
   *   unsupported tensor type, MTL_GGUF_IO for a file that cannot be read
   */
  static async open(path: string): Promise<GgufFile> {
    let handle: FileHandle | undefined;
    try {
      handle = await openRegularHandle(path);
      const { size } = await handle.stat();
      return new GgufFile(path, handle, await readHeader(handle, path, size), size);
    } catch (error) {
      await handle?.close().catch(() => undefined);
      if (MtlError.isInstance(error)) throw error;
      const problem = error instanceof IrregularFileError ? `is ${error.kind}` : (error as Error).message;
      throw new CheckpointError('MTL_GGUF_IO', `${path} cannot be read: ${problem}`, {
        expected: 'a GGUF file',
        remedy: 'check the path and its permissions',
        exitCode: 2,
        cause: error,
      });
    }
  }

  /**
   * Returns the row-major, little-endian bytes of a tensor, or of a range of its values.
   *
   * @throws CheckpointError MTL_GGUF_INVALID for a file that became shorter after it was opened,
   *   MTL_NOT_FINITE for a value that is not finite, if `requireFinite` is true
   */
  async read(options: {
    readonly name: string;
    readonly range?: ValueRange;
    readonly target?: Uint8Array;
    readonly requireFinite?: boolean;
  }): Promise<Uint8Array> {
    const { name, requireFinite } = options;
    const entry = this.tensors.get(name)!;
    const { dtype, shape, type, numValues } = entry;
    const range = options.range ?? { start: 0, end: numValues };
    const first = range.start;
    const target = options.target ?? new Uint8Array((entry.bytes / numValues) * (range.end - range.start));
    const isPlain = tensorTypes[type].blockValues === 1;
    if (isPlain) await this.#readFully(entry.start + bytesOfValues(type, first), target);
    else await this.#decode(entry, range, target);
    if (requireFinite === true) {
      const slices = shape.map((size) => ({ start: 0, end: size }));
      const remedy = 'copy or download the file again, or take other weights: these are not finite';
      checkValues(target, { dtype, first, check: { place: this.path, name, slices, remedy, exitCode: 2 } });
    }
    return target;
  }

  /** Decodes the blocks that contain a range of values to float32, a limited number of values at a time. */
  async #decode({ type, start }: GgufEntry, range: ValueRange, target: Uint8Array): Promise<void> {
    const { blockValues } = tensorTypes[type];
    const values = new Float32Array(target.buffer, target.byteOffset, range.end - range.start);
    const firstOfBlock = Math.floor(range.start / blockValues) * blockValues;
    const decoded = new Float32Array(Math.min(valuesAtOnce, range.end - firstOfBlock + blockValues));
    for (let first = firstOfBlock; first < range.end; first += valuesAtOnce) {
      const blocks = Math.ceil(Math.min(valuesAtOnce, range.end - first) / blockValues);
      const own = decoded.subarray(0, blocks * blockValues);
      const bytes = new Uint8Array(bytesOfValues(type, own.length));
      await this.#readFully(start + bytesOfValues(type, first), bytes);
      codecs[type].decode!(bytes, own);
      const begin = Math.max(range.start - first, 0);
      const stop = Math.min(range.end - first, own.length);
      values.set(own.subarray(begin, stop), first + begin - range.start);
    }
  }

  async #readFully(position: number, bytes: Uint8Array): Promise<void> {
    const done = await readHandleFully({ handle: this.#handle, bytes, position });
    if (done < bytes.length) throw ggufInvalid(this.path, `it ends at byte ${position + done}`);
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
