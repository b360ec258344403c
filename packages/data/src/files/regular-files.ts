import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs';

/** Something else than a regular file, where a reader needs one. */
export class IrregularFileError extends Error {
  constructor(readonly kind: string) {
    super(`is ${kind}, not a regular file`);
  }
}

/**
 * Opens a regular file for reading. Anything else is refused at once: opening a FIFO without a writer, or
 * reading a terminal, would wait for ever. Throws an `IrregularFileError` or the error of the system.
 */
export function openRegularFile(path: string): { readonly descriptor: number; readonly size: number } {
  // Windows has no such flag, and no FIFOs among its files.
  const descriptor = openAtOnce(path);
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) throw new IrregularFileError(kindOf(stats));
    return { descriptor, size: stats.size };
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

/** Describes for a message what is wrong with a file, from an error of `openRegularFile` or of reading. */
export function fileProblem(error: unknown): string {
  if (error instanceof IrregularFileError) return error.message;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'no such file';
  return `cannot be read (${message})`;
}

function openAtOnce(path: string): number {
  try {
    return openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (error) {
    // so open(2) answers for a socket, and for a device that is not there
    if ((error as NodeJS.ErrnoException).code !== 'ENXIO') throw error;
    throw new IrregularFileError('a socket or a device');
  }
}

function kindOf(stats: Stats): string {
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a FIFO';
  return stats.isSocket() ? 'a socket' : 'a device';
}

/**
 * Fills `view` from `position` of an open file; returns the bytes read, fewer only at the end of the file
 * (one read(2) may return less than asked for, and never more than 2 GiB).
 */
export function readFully(descriptor: number, view: ArrayBufferView, position: number): number {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  let done = 0;
  while (done < bytes.length) {
    const count = readSync(descriptor, bytes, done, Math.min(bytes.length - done, 1 << 30), position + done);
    if (count === 0) break;
    done += count;
  }
  return done;
}

/** A file that is longer than its reader takes. */
export class FileTooLargeError extends Error {}

// readFileSync reads as much at a time.
const maximum = 2 ** 31 - 1;

/**
 * Returns the bytes of a regular file of at most `maximumBytes`. Throws as `openRegularFile` (see
 * `fileProblem`), and a `FileTooLargeError` before memory is taken.
 */
export function readRegularFile(path: string, maximumBytes = maximum): Buffer {
  const { descriptor, size } = openRegularFile(path);
  try {
    if (size > maximumBytes) throw new FileTooLargeError(`is ${size} bytes long`);
    const bytes = Buffer.allocUnsafeSlow(size);
    return bytes.subarray(0, readFully(descriptor, bytes, 0));
  } finally {
    closeSync(descriptor);
  }
}
