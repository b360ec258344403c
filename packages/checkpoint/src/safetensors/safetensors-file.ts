import type { FileHandle } from 'node:fs/promises';
import { CheckpointError, type MtlError, nearestName, UsageError } from '@mtl/errors';
import {
  formatSlices,
  intersectSlices,
  type Slice,
  shapeOfSlices,
  slicesDefect,
  volumeOfShape,
  wholeSlices,
} from '@mtl/layout';
import { openRegularFile } from '../files/file-system.js';
import { ioError } from '../files/io-error.js';
import { RunReader, readFully, type StoredBytes } from '../files/run-reader.js';
import { planRuns } from '../tensors/box-runs.js';
import { dtypeBytes } from '../tensors/dtype.js';
import { maxHeaderBytes, parseSafetensorsHeader, type SafetensorsEntry } from './safetensors-header.js';

function invalid(path: string, problem: string): MtlError {
  return new CheckpointError(
    'MTL_SAFETENSORS_INVALID',
    `${path} is not a valid safetensors file: ${problem}`,
    {
      remedy: 'copy or download the file again; `ls -l` shows whether it is shorter than its source',
      details: { path },
      exitCode: 2,
    },
  );
}

/**
 * A safetensors file that is open for reading. Opening checks everything that can be checked without reading
 * the tensors: the length and JSON of the header, dtypes, shapes, and that the tensors fill the file without
 * gap or overlap.
 */
export class SafetensorsFile {
  readonly path: string;
  /** The tensors, keyed by name, in the order of their bytes in the file. */
  readonly tensors: ReadonlyMap<string, SafetensorsEntry>;
  readonly metadata: Readonly<Record<string, string>>;
  /** The number of bytes before the first tensor. */
  readonly headerBytes: number;
  readonly bytes: number;
  /** The open file, for code of this package that reads it directly. */
  readonly handle: FileHandle;

  private constructor(options: {
    path: string;
    handle: FileHandle;
    entries: readonly SafetensorsEntry[];
    metadata: Record<string, string>;
    headerBytes: number;
    bytes: number;
  }) {
    this.path = options.path;
    this.handle = options.handle;
    this.tensors = new Map(options.entries.map((entry) => [entry.name, entry]));
    this.metadata = options.metadata;
    this.headerBytes = options.headerBytes;
    this.bytes = options.bytes;
  }

  /**
   * Opens a file and checks its header.
   *
   * @throws CheckpointError MTL_SAFETENSORS_INVALID if the file violates the format
   * @throws CheckpointError MTL_CHECKPOINT_IO or MTL_CHECKPOINT_DENIED if it cannot be read
   */
  static async open(path: string): Promise<SafetensorsFile> {
    let handle: FileHandle | undefined;
    try {
      handle = await openRegularFile(path);
      const status = await handle.stat();
      if (status.size < 8) throw invalid(path, `it has ${status.size} bytes`);
      const length = Buffer.alloc(8);
      await readFully({ source: { handle, path }, bytes: length, position: 0 });
      const jsonBytes = length.readBigUInt64LE();
      if (jsonBytes > maxHeaderBytes || Number(jsonBytes) > status.size - 8) {
        throw invalid(path, `it declares a header of ${jsonBytes} bytes in a file of ${status.size}`);
      }
      const json = new Uint8Array(Number(jsonBytes));
      await readFully({ source: { handle, path }, bytes: json, position: 8 });
      const headerBytes = 8 + json.length;
      const parsed = parseSafetensorsHeader({ json, dataStart: headerBytes, fileBytes: status.size });
      if (typeof parsed === 'string') throw invalid(path, parsed);
      return new SafetensorsFile({ path, handle, ...parsed, headerBytes, bytes: status.size });
    } catch (error) {
      await handle?.close().catch(() => undefined);
      throw ioError(error, { action: 'read', path });
    }
  }

  /**
   * Returns the entry of tensor `name`.
   *
   * @throws CheckpointError MTL_SAFETENSORS_NAME, whose message contains the nearest name, if there is no
   *   such tensor
   */
  entry(name: string): SafetensorsEntry {
    const entry = this.tensors.get(name);
    if (entry !== undefined) return entry;
    const nearest = nearestName(name, this.tensors.keys());
    throw new CheckpointError('MTL_SAFETENSORS_NAME', `${this.path} has no tensor ${JSON.stringify(name)}`, {
      expected: nearest === undefined ? `one of its ${this.tensors.size} names` : JSON.stringify(nearest),
    });
  }

  /**
   * Reads a tensor, a box of it, or a range of its values.
   *
   * @param options.slices a range [start, end) for each dimension. Default: the complete tensor
   * @param options.range the values [start, end) in row-major order, instead of slices
   * @param options.target memory for the row-major bytes, with exactly their size. Default: newly allocated
   * @param options.requireFinite true to reject values that are NaN or infinite. Default: false
   * @returns `target`
   * @throws CheckpointError MTL_NOT_FINITE (wrong input), which names tensor and element, if `requireFinite`
   *   is true
   * @throws CheckpointError MTL_SAFETENSORS_NAME, MTL_SAFETENSORS_SLICE, MTL_CHECKPOINT_CORRUPT (the file has
   *   become shorter after it was opened) or MTL_CHECKPOINT_IO; UsageError MTL_SAFETENSORS_TARGET
   */
  async read(options: {
    readonly name: string;
    readonly slices?: readonly Slice[];
    readonly range?: Slice;
    readonly target?: Uint8Array;
    readonly requireFinite?: boolean;
  }): Promise<Uint8Array> {
    const { range } = options;
    const entry = this.entry(options.name);
    const shape = range === undefined ? entry.shape : [volumeOfShape(entry.shape)];
    const source = wholeSlices(shape);
    const slices = range === undefined ? (options.slices ?? source) : [range];
    const defect = slicesDefect(slices, shape);
    if (defect !== undefined) {
      throw new CheckpointError(
        'MTL_SAFETENSORS_SLICE',
        `${formatSlices(slices)} of tensor ${JSON.stringify(entry.name)} in ${this.path}: ${defect}`,
        { expected: `slices inside the shape [${shape.join(', ')}]` },
      );
    }
    const elementBytes = dtypeBytes[entry.dtype];
    const bytes = volumeOfShape(shapeOfSlices(slices)) * elementBytes;
    const target = options.target ?? new Uint8Array(bytes);
    if (target.length !== bytes) {
      throw new UsageError(
        'MTL_SAFETENSORS_TARGET',
        `the target of ${JSON.stringify(entry.name)}${formatSlices(slices)} has ${target.length} bytes`,
        { expected: `${bytes}` },
      );
    }
    const common = bytes === 0 ? undefined : intersectSlices(source, slices);
    if (common === undefined) return target;
    await new RunReader().read({
      source: {
        handle: this.handle,
        path: this.path,
        name: entry.name,
        offset: entry.offset,
        bytes: entry.bytes,
        ...(options.requireFinite === true ? { values: this.#describeValues(entry) } : {}),
      },
      plan: planRuns({ source, target: slices, common, elementBytes }),
      target,
    });
    return target;
  }

  #describeValues({ name, dtype, shape }: SafetensorsEntry): NonNullable<StoredBytes['values']> {
    const remedy = 'copy or download the file again, or take other weights: these are not finite';
    return { dtype, check: { place: this.path, name, slices: wholeSlices(shape), remedy, exitCode: 2 } };
  }

  /** Reads rows [start, end) of the first dimension (see {@link SafetensorsFile.read}). */
  async readRows(options: {
    readonly name: string;
    readonly start: number;
    readonly end: number;
    readonly target?: Uint8Array;
  }): Promise<Uint8Array> {
    const { name, start, end, target } = options;
    const rest = wholeSlices(this.entry(name).shape.slice(1));
    return await this.read({
      name,
      slices: [{ start, end }, ...rest],
      ...(target === undefined ? {} : { target }),
    });
  }

  async close(): Promise<void> {
    await this.handle.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
