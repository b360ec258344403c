import type { FileHandle } from 'node:fs/promises';
import { openRunFile } from './open-run-file.js';

const blockBytes = 1 << 20;
/** A longer line is no record of a run. */
const mostLineBytes = 16 << 20;
/** Bytes before the place that was read up to: what was rewritten does not end in the same ones. */
const remembered = 128;

export interface LineListener {
  /** A whole line, without its end. */
  line(text: string): void;
  /** The file is another one, or was cut: its lines follow from the first on. */
  restart(): void;
}

/** Follows a file of lines: each read tells of the lines that were appended since the one before. */
export class AppendedLines {
  readonly #path: string;
  #offset = 0;
  #identity = '';
  #end = Buffer.alloc(0);

  constructor(path: string) {
    this.#path = path;
  }

  /** Reads to the last whole line. A file that is gone counts as empty. */
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

  /** Whether what was read is still there. */
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
        // the rest of the line is still to be written
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
