import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { UsageError } from '@mtl/errors';
import { BlockChecksums } from '../files/block-checksums.js';
import { type FileSystem, nodeFileSystem, writeDurably } from '../files/file-system.js';
import { ioError, withIoErrors } from '../files/io-error.js';
import { inAlignedOrder } from '../tensors/dtype.js';
import { notFinite, type ValueCheck, ValueScan } from '../tensors/finite-values.js';
import { safetensorsIndexName, safetensorsSingleName } from './safetensors-directory.js';
import {
  bytesOfDeclaration,
  encodeSafetensorsHeader,
  type SafetensorsEntry,
  type TensorDeclaration,
} from './safetensors-header.js';

/** A tensor to be written. */
interface WrittenTensor extends TensorDeclaration {
  /**
   * The check of the tensor's values. If given, each write must consist of complete elements. Default: no
   * check.
   */
  readonly check?: ValueCheck | undefined;
}

/** A description of the finished file, returned by {@link SafetensorsWriter.finish}. */
interface WrittenSafetensors {
  readonly path: string;
  readonly bytes: number;
  readonly headerBytes: number;
  /** CRC-32 of each block of the header. The length field before the header is included. */
  readonly headerChecksums: readonly number[];
  /** CRC-32 of each block of each tensor, in the order of declaration. */
  readonly checksums: ReadonlyMap<string, readonly number[]>;
}

// The number of bytes per write, and the number of concurrent writes. One block is checksummed while the
// previous block is written.
const writeBytes = 8 * 1024 * 1024;
const writesUnderWay = 2;

/**
 * Writes a safetensors file as a stream: first the header, which declares all tensors, then the tensors'
 * bytes in the same order. Nothing is buffered. At most two writes from the caller's own memory are in
 * progress. So that readers can map tensors in place, declare wide dtypes before narrow dtypes (see {@link
 * inAlignedOrder}).
 *
 * The file is complete only after `finish`. After any error call `abort`, which removes the file.
 */
export class SafetensorsWriter {
  readonly path: string;
  readonly entries: readonly SafetensorsEntry[];
  readonly #fileSystem: FileSystem;
  readonly #handle: FileHandle;
  readonly #headerBytes: number;
  readonly #headerChecksums: readonly number[];
  readonly #checksums = new Map<string, readonly number[]>();
  readonly #checks: ReadonlyMap<string, ValueCheck>;
  #current = -1;
  #currentScan: ValueScan | undefined;
  #currentChecksums = new BlockChecksums();
  #written = 0;
  #position: number;
  #busy = false;

  private constructor(options: {
    path: string;
    fileSystem: FileSystem;
    handle: FileHandle;
    header: Uint8Array;
    entries: readonly SafetensorsEntry[];
    tensors: readonly WrittenTensor[];
  }) {
    this.path = options.path;
    this.entries = options.entries;
    this.#fileSystem = options.fileSystem;
    this.#handle = options.handle;
    this.#headerBytes = options.header.length;
    this.#position = options.header.length;
    const checksums = new BlockChecksums();
    checksums.update(options.header);
    this.#headerChecksums = checksums.finish();
    this.#checks = new Map(
      options.tensors.flatMap(({ name, check }) => (check === undefined ? [] : [[name, check] as const])),
    );
    this.#openTensor();
    this.#skipEmpty();
  }

  /**
   * Creates (or truncates) the file at `path` and writes its header.
   *
   * @param options.tensors the tensors, in the order of the later writes
   * @param options.metadata free text for readers; Hugging Face's libraries require `{ format: 'pt' }`
   * @throws CheckpointError MTL_SAFETENSORS_DECLARATION, MTL_CHECKPOINT_DISK_FULL, _DENIED or _IO
   */
  static async create(options: {
    readonly path: string;
    readonly tensors: readonly WrittenTensor[];
    readonly metadata?: Readonly<Record<string, string>>;
    readonly fileSystem?: FileSystem;
  }): Promise<SafetensorsWriter> {
    const { path, tensors, fileSystem = nodeFileSystem } = options;
    const { header, entries } = encodeSafetensorsHeader(options);
    let handle: FileHandle | undefined;
    try {
      handle = await fileSystem.open(path, 'w');
      await writeFully(handle, header, 0);
      return new SafetensorsWriter({ path, fileSystem, handle, header, entries, tensors });
    } catch (error) {
      await handle?.close().catch(() => undefined);
      if (handle !== undefined) await fileSystem.rm(path, { force: true }).catch(() => undefined);
      throw ioError(error, { action: 'create', path });
    }
  }

  /**
   * Appends bytes to tensor `name`, which must be the first incomplete tensor. A tensor may be written in one
   * or several calls. The promise resolves when the file system has taken the bytes, so that the caller may
   * reuse the memory.
   *
   * @throws UsageError MTL_SAFETENSORS_ORDER if `name` is not the first incomplete tensor, or if `bytes` is
   *   longer than the rest of the tensor
   * @throws CheckpointError MTL_NOT_FINITE if a value fails the tensor's check; MTL_CHECKPOINT_DISK_FULL,
   *   _DENIED or _IO
   */
  async write(name: string, bytes: Uint8Array): Promise<void> {
    const entry = this.entries[this.#current];
    if (entry?.name !== name && bytes.length === 0 && this.#checksums.has(name)) return;
    if (this.#busy || entry?.name !== name || this.#written + bytes.length > entry.bytes) {
      throw new UsageError(
        'MTL_SAFETENSORS_ORDER',
        `${bytes.length} bytes of tensor ${JSON.stringify(name)} do not come next in ${this.path}`,
        {
          expected:
            entry === undefined
              ? 'nothing: all tensors are complete'
              : `at most ${entry.bytes - this.#written} bytes of ${JSON.stringify(entry.name)}, one write at a time`,
        },
      );
    }
    this.#busy = true;
    try {
      await this.#append(bytes);
    } catch (error) {
      throw ioError(error, { action: 'write', path: this.path });
    } finally {
      this.#busy = false;
    }
    this.#written += bytes.length;
    if (this.#written === entry.bytes) this.#closeTensor(entry.name);
    this.#skipEmpty();
  }

  /**
   * Makes the file durable (fsync) and closes it.
   *
   * @throws UsageError MTL_SAFETENSORS_ORDER if a tensor is incomplete
   */
  async finish(): Promise<WrittenSafetensors> {
    const missing = this.entries[this.#current];
    if (missing !== undefined || this.#busy) {
      throw new UsageError('MTL_SAFETENSORS_ORDER', `${this.path} is not complete`, {
        expected: `${(missing?.bytes ?? 0) - this.#written} more bytes of ${JSON.stringify(missing?.name)}`,
      });
    }
    try {
      await this.#handle.sync();
      await this.#handle.close();
    } catch (error) {
      throw ioError(error, { action: 'finish', path: this.path });
    }
    return {
      path: this.path,
      bytes: this.#position,
      headerBytes: this.#headerBytes,
      headerChecksums: this.#headerChecksums,
      checksums: this.#checksums,
    };
  }

  /** Closes and removes the file. Never throws, because a second error would hide the first error. */
  async abort(): Promise<void> {
    await this.#handle.close().catch(() => undefined);
    await this.#fileSystem.rm(this.path, { force: true }).catch(() => undefined);
  }

  async #append(bytes: Uint8Array): Promise<void> {
    const underWay: Promise<void>[] = [];
    try {
      for (let offset = 0; offset < bytes.length; offset += writeBytes) {
        const block = bytes.subarray(offset, offset + writeBytes);
        const written = writeFully(this.#handle, block, this.#position);
        // the failure is thrown when the promise is awaited; without this handler, Node would report the
        // failure earlier, as an unhandled rejection
        written.catch(() => undefined);
        underWay.push(written);
        this.#position += block.length;
        this.#currentChecksums.update(block);
        this.#checkValues();
        if (underWay.length === writesUnderWay) await underWay.shift();
      }
    } finally {
      // this call waits for all writes even after a failure, because the caller may reuse the memory only
      // when no write reads it any more
      const results = await Promise.allSettled(underWay);
      const failed = results.find((result) => result.status === 'rejected');
      // biome-ignore lint/correctness/noUnsafeFinally: the first failure of the two is as good as the other
      if (failed !== undefined) throw failed.reason;
    }
  }

  #closeTensor(name: string): void {
    this.#checksums.set(name, this.#currentChecksums.finish());
    this.#openTensor();
  }

  #openTensor(): void {
    this.#written = 0;
    this.#current++;
    const entry = this.entries[this.#current];
    const check = entry && this.#checks.get(entry.name);
    this.#currentScan = check && new ValueScan(entry.dtype, check.limit?.magnitude);
    this.#currentChecksums = new BlockChecksums(this.#currentScan);
  }

  #checkValues(): void {
    const found = this.#currentScan?.found;
    if (found === undefined) return;
    throw notFinite(this.#checks.get(this.entries[this.#current]!.name)!, found);
  }

  #skipEmpty(): void {
    for (let entry = this.entries[this.#current]; entry?.bytes === 0; entry = this.entries[this.#current]) {
      this.#closeTensor(entry.name);
    }
  }
}

/**
 * Writes all of `bytes` at `position`, using several writes if the system does not take all bytes in one
 * write.
 */
async function writeFully(handle: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  let done = 0;
  while (done < bytes.length) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/**
 * A tensor to write. The writer requests the tensor's bytes when it writes the tensor. The bytes must not
 * change until the writer requests the next tensor.
 */
export interface TensorSource extends WrittenTensor {
  read(): Uint8Array | Promise<Uint8Array>;
}

export function encodeSafetensorsIndex(options: {
  readonly totalBytes: number;
  readonly fileByName: ReadonlyMap<string, string>;
}): string {
  const weightMap = Object.fromEntries([...options.fileByName].sort(([a], [b]) => (a < b ? -1 : 1)));
  return `${JSON.stringify({ metadata: { total_size: options.totalBytes }, weight_map: weightMap }, null, 2)}\n`;
}

/**
 * Splits a list into consecutive groups of at most `maxBytes`. An item is never split, so a large item is a
 * separate group.
 */
export function groupByBytes<Item>(
  items: readonly Item[],
  options: { readonly maxBytes: number; readonly countBytes: (item: Item) => number },
): Item[][] {
  const groups: Item[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const item of items) {
    const size = options.countBytes(item);
    if (bytes + size > options.maxBytes) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1)!.push(item);
    bytes += size;
  }
  return groups;
}

/**
 * Writes a model in the form for Hugging Face's libraries. The file is `model.safetensors`. If it would
 * exceed `maxShardBytes`, shards `model-00001-of-0000N.safetensors` with an index are written instead. The
 * directory must exist. At most one tensor is in memory at a time.
 *
 * @param options.maxShardBytes 5 GB by default, as in Hugging Face's libraries
 * @throws CheckpointError MTL_SAFETENSORS_DECLARATION, MTL_CHECKPOINT_DISK_FULL, _DENIED, _IO
 * @throws UsageError MTL_SAFETENSORS_ORDER if a tensor does not have the declared number of bytes,
 *   MTL_SAFETENSORS_NAME_TWICE
 */
export async function writeSafetensorsDirectory(options: {
  readonly directory: string;
  readonly tensors: readonly TensorSource[];
  readonly metadata?: Readonly<Record<string, string>>;
  readonly maxShardBytes?: number;
  readonly fileSystem?: FileSystem;
}): Promise<{ readonly files: readonly string[]; readonly totalBytes: number }> {
  const { directory, metadata = { format: 'pt' }, fileSystem = nodeFileSystem } = options;
  const names = new Set<string>();
  for (const { name } of options.tensors) {
    if (names.has(name)) {
      throw new UsageError('MTL_SAFETENSORS_NAME_TWICE', `two tensors are named ${JSON.stringify(name)}`);
    }
    names.add(name);
  }
  const groups = groupByBytes(inAlignedOrder(options.tensors), {
    maxBytes: options.maxShardBytes ?? 5_000_000_000,
    countBytes: bytesOfDeclaration,
  });
  if (groups.length === 0) groups.push([]);
  const digits = (value: number): string => String(value).padStart(5, '0');
  const fileByName = new Map<string, string>();
  const files: string[] = [];
  let totalBytes = 0;
  for (const [index, group] of groups.entries()) {
    const file =
      groups.length === 1
        ? safetensorsSingleName
        : `model-${digits(index + 1)}-of-${digits(groups.length)}.safetensors`;
    files.push(file);
    await writeSafetensorsFile({ path: join(directory, file), tensors: group, metadata, fileSystem });
    for (const tensor of group) {
      fileByName.set(tensor.name, file);
      totalBytes += bytesOfDeclaration(tensor);
    }
  }
  if (groups.length > 1) {
    const path = join(directory, safetensorsIndexName);
    await withIoErrors({ action: 'write', path }, () =>
      writeDurably({ path, text: encodeSafetensorsIndex({ totalBytes, fileByName }), fileSystem }),
    );
  }
  return { files, totalBytes };
}

/** Writes a safetensors file from sources, in the given order. The file is removed after an error. */
export async function writeSafetensorsFile(options: {
  readonly path: string;
  readonly tensors: readonly TensorSource[];
  readonly metadata?: Readonly<Record<string, string>>;
  readonly fileSystem?: FileSystem;
}): ReturnType<SafetensorsWriter['finish']> {
  const writer = await SafetensorsWriter.create(options);
  try {
    for (const tensor of options.tensors) {
      const bytes = await tensor.read();
      const declared = bytesOfDeclaration(tensor);
      if (bytes.length !== declared) {
        throw new UsageError(
          'MTL_SAFETENSORS_ORDER',
          `read() of tensor ${JSON.stringify(tensor.name)} gave ${bytes.length} bytes`,
          { expected: `${declared}: ${tensor.dtype} of shape [${tensor.shape.join(', ')}]` },
        );
      }
      await writer.write(tensor.name, bytes);
    }
    return await writer.finish();
  } catch (error) {
    await writer.abort();
    throw error;
  }
}
