import { constants, type FileHandle, lstat, open } from 'node:fs/promises';

/**
 * Error codes for a path that is not a readable file of the run: it does not exist, is a link, is below
 * something that is not a folder, or is not permitted.
 */
const absent = ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM'];

/**
 * Opens a file of a run for reading; undefined if the path is not a regular file. Links are not followed, so
 * that nothing outside of the run is read; FIFOs and devices are not opened.
 */
export async function openRunFile(path: string): Promise<FileHandle | undefined> {
  let file: FileHandle;
  try {
    // Windows has neither flag, so links are recognized before
    if (process.platform === 'win32' && (await lstat(path)).isSymbolicLink()) return undefined;
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (absent.includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
  if ((await file.stat()).isFile()) return file;
  await file.close();
  return undefined;
}

/**
 * Reads the text of a file of a run; returns undefined if the file does not exist or has more than
 * `mostBytes`.
 */
export async function readRunFile(
  path: string,
  { mostBytes }: { readonly mostBytes: number },
): Promise<string | undefined> {
  const file = await openRunFile(path);
  try {
    if (file === undefined || (await file.stat()).size > mostBytes) return undefined;
    return await file.readFile('utf8');
  } finally {
    await file?.close();
  }
}

const blockBytes = 1 << 20;
/** The largest number of bytes in a line. A longer line is not a record of a run. */
const mostLineBytes = 16 << 20;
/**
 * How many bytes before the current position are remembered. If they have changed, the file was rewritten.
 */
const remembered = 128;

export interface LineListener {
  /** Called with each complete line, without its line feed. */
  line(text: string): void;
  /** Called if the file was replaced or truncated. All lines of the file follow, from the first line. */
  restart(): void;
}

/**
 * Reads the lines that are appended to a file. Each read returns the lines that were appended since the
 * previous read.
 */
export class AppendedLines {
  readonly #path: string;
  #offset = 0;
  #identity = '';
  #end = Buffer.alloc(0);

  constructor(path: string) {
    this.#path = path;
  }

  /** Reads new lines up to the last complete line. A file that no longer exists counts as empty. */
  async read(listener: LineListener): Promise<void> {
    const file = await openRunFile(this.#path);
    if (file === undefined) {
      this.#restart('', listener);
      return;
    }
    try {
      const { size, ino, dev } = await file.stat();
      const identity = `${dev}:${ino}`;
      if (identity !== this.#identity || !(await this.#isContinued(file, size))) {
        this.#restart(identity, listener);
      }
      await this.#readTo(file, size, listener);
    } finally {
      await file.close();
    }
  }

  #restart(identity: string, listener: LineListener): void {
    if (this.#offset > 0) listener.restart();
    this.#offset = 0;
    this.#identity = identity;
    this.#end = Buffer.alloc(0);
  }

  /**
   * Returns true if the bytes that were read before are unchanged, so that only new bytes have been appended
   * to the file.
   */
  async #isContinued(file: FileHandle, size: number): Promise<boolean> {
    if (size < this.#offset) return false;
    const { length } = this.#end;
    const now = Buffer.alloc(length);
    await file.read(now, 0, length, this.#offset - length);
    return now.equals(this.#end);
  }

  async #readTo(file: FileHandle, size: number, listener: LineListener): Promise<void> {
    let length = blockBytes;
    while (this.#offset < size) {
      const buffer = Buffer.allocUnsafe(Math.min(length, size - this.#offset));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, this.#offset);
      const end = buffer.subarray(0, bytesRead).lastIndexOf('\n') + 1;
      if (end > 0) {
        for (const line of buffer.toString('utf8', 0, end - 1).split('\n')) listener.line(line);
        this.#advance(buffer.subarray(0, end));
        length = blockBytes;
      } else if (bytesRead < length) {
        // the last line is not complete yet
        return;
      } else if (length < mostLineBytes) {
        length *= 4;
      } else {
        this.#advance(buffer.subarray(0, bytesRead));
      }
    }
  }

  #advance(read: Buffer): void {
    this.#offset += read.length;
    this.#end = Buffer.from(read.subarray(Math.max(0, read.length - remembered)));
  }
}
