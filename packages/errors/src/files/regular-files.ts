import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

/** Thrown if a path is not a regular file, although its reader needs one. */
export class IrregularFileError extends Error {
  constructor(readonly kind: 'a directory' | 'a FIFO' | 'a socket' | 'a device' | 'a socket or a device') {
    super(`is ${kind}, not a regular file`);
  }
}

/** Thrown if a file is longer than its reader allows. */
export class FileTooLargeError extends Error {
  constructor(readonly size: number) {
    super(`is ${size} bytes long`);
  }
}

/**
 * Returns the problem with a file, as the end of a sentence. `error` is the error of opening or reading the
 * file.
 */
export function fileProblem(error: unknown): string {
  if (error instanceof IrregularFileError) return error.message;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'no such file';
  return `cannot be read (${message})`;
}

/**
 * Opens a regular file for reading. Rejects any other kind of file at once, because opening a FIFO without a
 * writer, or reading a terminal, would wait forever. Throws an `IrregularFileError` or the operating system's
 * error.
 */
export function openRegularFile(path: string): { readonly descriptor: number; readonly size: number } {
  const descriptor = openAtOnce(path);
  try {
    const stats = fstatSync(descriptor);
    checkRegular(stats);
    return { descriptor, size: stats.size };
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

function openAtOnce(path: string): number {
  try {
    return openSync(path, openingFlags);
  } catch (error) {
    throw openingError(error);
  }
}

/** Opens a regular file like `openRegularFile`, without blocking the thread. */
export async function openRegularHandle(path: string): Promise<FileHandle> {
  const handle = await open(path, openingFlags).catch((error: unknown) => {
    throw openingError(error);
  });
  try {
    checkRegular(await handle.stat());
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

// Windows has no such flag, but a Windows path cannot be a FIFO
const openingFlags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

function openingError(error: unknown): unknown {
  // open(2) raises this error for a socket, or for a device that does not exist
  const isIrregular = (error as NodeJS.ErrnoException).code === 'ENXIO';
  return isIrregular ? new IrregularFileError('a socket or a device') : error;
}

function checkRegular(stats: Stats): void {
  if (stats.isFile()) return;
  if (stats.isDirectory()) throw new IrregularFileError('a directory');
  if (stats.isFIFO()) throw new IrregularFileError('a FIFO');
  throw new IrregularFileError(stats.isSocket() ? 'a socket' : 'a device');
}

/**
 * Fills `view` with the bytes of an open file, starting at `position`. Returns how many bytes were read,
 * which is less than the view's length only at the end of the file. A loop is necessary, because a single
 * read(2) may return fewer bytes than requested, and never more than 2 GiB.
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

/** Fills `bytes` like `readFully`, without blocking the thread. */
export async function readHandleFully(options: {
  readonly handle: FileHandle;
  readonly bytes: Uint8Array;
  readonly position: number;
}): Promise<number> {
  const { handle, bytes, position } = options;
  let done = 0;
  while (done < bytes.length) {
    const { bytesRead } = await handle.read(bytes, done, bytes.length - done, position + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return done;
}

// The largest size that readFileSync can read.
const maximum = 2 ** 31 - 1;

/**
 * Returns the bytes of a regular file of at most `maximumBytes`. Throws the errors of `openRegularFile` (see
 * `fileProblem`). If the file is longer, throws a `FileTooLargeError` before allocating memory.
 */
export function readRegularFile(path: string, maximumBytes = maximum): Buffer {
  const { descriptor, size } = openRegularFile(path);
  try {
    if (size > maximumBytes) throw new FileTooLargeError(size);
    const bytes = Buffer.allocUnsafeSlow(size);
    return bytes.subarray(0, readFully(descriptor, bytes, 0));
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Returns a regular file's contents as a string, without blocking the thread. Throws the errors of
 * `readRegularFile`.
 */
export async function readRegularText(path: string, maximumBytes = maximum): Promise<string> {
  const handle = await openRegularHandle(path);
  try {
    const { size } = await handle.stat();
    if (size > maximumBytes) throw new FileTooLargeError(size);
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}
