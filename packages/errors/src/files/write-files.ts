import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, unlinkSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { namingFile } from '../reword-error.js';
import { renameFileSync } from './rename-file.js';

/**
 * Writes `parts`, one after another, to the file `path`. A concurrent reader sees either the old file or the
 * complete new file.
 */
export function writeFileAtomically(path: string, parts: readonly (ArrayBufferView | string)[]): void {
  mkdirSync(dirname(path), { recursive: true });
  const writer = new BinaryFileWriter({ path: temporaryPath(path) });
  try {
    for (const part of parts) writer.write(typeof part === 'string' ? Buffer.from(part, 'utf8') : part);
    writer.finish();
    renameFileSync(writer.path, path);
  } catch (error) {
    writer.discard();
    throw error;
  }
  syncDirectory(path);
}

/**
 * Returns a unique path in the folder of `path`, and thus on the same file system, so that renaming it to
 * `path` is atomic.
 */
export function temporaryPath(path: string): string {
  return `${path}.${process.pid}-${randomBytes(4).toString('hex')}.tmp`;
}

/** Makes renames in the parent directory of `path` durable, so that they survive a power failure. */
export function syncDirectory(path: string): void {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(dirname(path), 'r');
    fsyncSync(descriptor);
  } catch {
    // Some file systems (network shares, Windows) refuse to sync a directory. The rename is still atomic.
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/**
 * Appends bytes to a new file through a buffer of fixed size. A million small writes thus need only a few
 * system calls, and memory does not grow with the file.
 */
export class BinaryFileWriter {
  readonly path: string;
  #descriptor: number;
  readonly #buffer: Buffer;
  #used = 0;
  #written = 0;

  /** Creates the file at `path`, or empties an existing one. `bufferBytes` is the buffer's size. */
  constructor({ path, bufferBytes = 1 << 20 }: { path: string; bufferBytes?: number }) {
    this.path = path;
    this.#descriptor = openSync(path, 'w');
    this.#buffer = Buffer.allocUnsafe(bufferBytes);
  }

  /** The number of bytes appended so far, including buffered bytes. */
  get byteLength(): number {
    return this.#written + this.#used;
  }

  /**
   * Appends the bytes of `view`, any typed array, in little-endian order, which all platforms of Node.js use.
   */
  write(view: ArrayBufferView): void {
    const bytes = Buffer.from(view.buffer, view.byteOffset, view.byteLength);
    if (bytes.length > this.#buffer.length - this.#used) this.#flush();
    if (bytes.length > this.#buffer.length) {
      this.#writeAll(bytes);
    } else {
      bytes.copy(this.#buffer, this.#used);
      this.#used += bytes.length;
    }
  }

  /** Appends one signed 32-bit integer. */
  writeInt32(value: number): void {
    this.#reserve(4);
    this.#buffer.writeInt32LE(value, this.#used);
    this.#used += 4;
  }

  /** Appends a signed 64-bit integer. `value` must be exact (below 2^53). */
  writeInt64(value: number): void {
    this.#reserve(8);
    this.#buffer.writeUInt32LE(value % 4294967296, this.#used);
    this.#buffer.writeInt32LE(Math.floor(value / 4294967296), this.#used + 4);
    this.#used += 8;
  }

  /** Writes the buffered bytes, syncs the file to the disk, and closes it. */
  finish(): void {
    this.#flush();
    namingFile(this.path, () => fsyncSync(this.#descriptor));
    this.#close();
  }

  /** Closes and deletes the file. May be called after any failure, and more than once. */
  discard(): void {
    this.#close();
    try {
      unlinkSync(this.path);
    } catch {
      // The file has already been renamed or deleted, so there is nothing to discard.
    }
  }

  #reserve(bytes: number): void {
    if (this.#used + bytes > this.#buffer.length) this.#flush();
  }

  #flush(): void {
    this.#writeAll(this.#buffer.subarray(0, this.#used));
    this.#used = 0;
  }

  #writeAll(bytes: Uint8Array): void {
    // write(2) may write fewer bytes than requested, because of a signal or the limit of 2 GiB.
    for (let done = 0; done < bytes.length; ) {
      done += namingFile(this.path, () => writeSync(this.#descriptor, bytes, done, bytes.length - done));
    }
    this.#written += bytes.length;
  }

  #close(): void {
    if (this.#descriptor >= 0) closeSync(this.#descriptor);
    this.#descriptor = -1;
  }
}
