import type { FileHandle } from 'node:fs/promises';
import { CheckpointError } from '@mtl/errors';
import { readFully } from '../files/run-reader.js';

/** The bytes [start, start + length) of an open file: a complete file, or an item in a file. */
export class FileRange {
  readonly handle: FileHandle;
  readonly path: string;
  readonly start: number;
  readonly length: number;

  constructor(options: {
    readonly handle: FileHandle;
    readonly path: string;
    readonly start: number;
    readonly length: number;
  }) {
    this.handle = options.handle;
    this.path = options.path;
    this.start = options.start;
    this.length = options.length;
  }

  /** Returns a sub-range; `start` is relative to the start of this range. */
  part(start: number, length: number): FileRange {
    this.#check(start, length);
    return new FileRange({ handle: this.handle, path: this.path, start: this.start + start, length });
  }

  /** Reads the bytes [start, start + length) after checking that the range contains them. */
  async read(start: number, length: number): Promise<Buffer> {
    this.#check(start, length);
    const bytes = Buffer.allocUnsafeSlow(length);
    await this.readInto(bytes, start);
    return bytes;
  }

  async readInto(target: Uint8Array, start: number): Promise<void> {
    this.#check(start, target.length);
    const { handle, path } = this;
    await readFully({ source: { handle, path }, bytes: target, position: this.start + start });
  }

  #check(start: number, length: number): void {
    const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;
    if (isCount(start) && isCount(length) && start + length <= this.length) return;
    throw torchFileInvalid(
      this.path,
      `it refers to bytes ${start} to ${start + length} of ${this.length}: it was cut off, or is damaged`,
    );
  }
}

/** Returns the error about a PyTorch file that violates the format or has unsupported content. */
export function torchFileInvalid(
  path: string,
  problem: string,
  { expected, remedy }: { readonly expected?: string; readonly remedy?: string } = {},
): CheckpointError {
  return new CheckpointError('MTL_TORCH_FILE_INVALID', `${path}: ${problem}`, {
    ...(expected === undefined ? {} : { expected }),
    remedy: remedy ?? 'copy the checkpoint again, all of its files together',
    details: { path },
    exitCode: 2,
  });
}
