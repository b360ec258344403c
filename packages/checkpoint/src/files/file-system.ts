import type { FileHandle } from 'node:fs/promises';
import * as promises from 'node:fs/promises';
import { dirname } from 'node:path';
import { CheckpointError } from '@mtl/errors';
import {
  FileTooLargeError,
  IrregularFileError,
  openRegularHandle,
  readRegularText,
  renameFile,
} from '@mtl/errors/files';
import { systemCode } from './io-error.js';

/**
 * The file operations of this package, as in `node:fs/promises`. Every function that writes has this option,
 * so that tests can make any operation fail.
 */
export interface FileSystem
  extends Pick<typeof promises, 'mkdir' | 'open' | 'readFile' | 'readdir' | 'rm' | 'stat'> {
  rename(from: string, to: string): Promise<void>;
}

/** The operations of Node. A rename is tried again while Windows has a file in use. */
export const nodeFileSystem: FileSystem = { ...promises, rename: renameFile };

/**
 * Makes a directory and its missing parents one by one, without Node's recursive mkdir. The recursive mkdir
 * reports a read-only file system as ENOENT, and loops forever if mkdir reports ENOENT although the parent
 * exists (procfs, automounts).
 */
export async function makeDirectory(
  directory: string,
  fileSystem: Pick<FileSystem, 'mkdir' | 'stat'>,
): Promise<void> {
  try {
    await fileSystem.mkdir(directory);
  } catch (error) {
    const code = systemCode(error);
    if (code === 'EEXIST') return;
    const above = dirname(directory);
    const isMissing = async (): Promise<boolean> =>
      await fileSystem.stat(above).then(
        () => false,
        () => true,
      );
    if (code !== 'ENOENT' || above === directory || !(await isMissing())) throw error;
    await makeDirectory(above, fileSystem);
    // tries again, because the parent exists now
    await fileSystem.mkdir(directory).catch((again: unknown) => {
      // another rank was faster
      if (systemCode(again) !== 'EEXIST') throw again;
    });
  }
}

/**
 * Opens a regular file for reading. A FIFO, socket or device is refused immediately; the usual way to open a
 * FIFO would wait for a writer forever.
 *
 * @throws CheckpointError MTL_CHECKPOINT_IO (wrong input) if the path is not a regular file; the system's
 *   errors
 */
export async function openRegularFile(path: string): Promise<FileHandle> {
  return await openRegularHandle(path).catch((error: unknown) => {
    throw codedProblem(error, { path });
  });
}

/**
 * Reads the text of a regular file.
 *
 * @param options.maxBytes a larger file is an error, and is not read
 * @throws CheckpointError MTL_CHECKPOINT_IO (wrong input) if the path is not a regular file or the file is
 *   too large; the system's errors
 */
export async function readRegularFile(
  path: string,
  { maxBytes }: { readonly maxBytes: number },
): Promise<string> {
  return await readRegularText(path, maxBytes).catch((error: unknown) => {
    throw codedProblem(error, { path, maxBytes });
  });
}

/**
 * Returns a coded error for an irregular file or a file that is too large. Returns other errors unchanged.
 */
function codedProblem(error: unknown, { path, maxBytes }: { path: string; maxBytes?: number }): unknown {
  const common = { details: { path }, exitCode: 2 } as const;
  if (error instanceof IrregularFileError) {
    const isOther = error.kind !== 'a directory' && error.kind !== 'a FIFO';
    return new CheckpointError(
      'MTL_CHECKPOINT_IO',
      `${path} is ${isOther ? 'a device or a socket' : error.kind}`,
      { expected: 'a regular file', ...common },
    );
  }
  if (error instanceof FileTooLargeError) {
    return new CheckpointError('MTL_CHECKPOINT_IO', `${path} has ${error.size} bytes`, {
      expected: `at most ${maxBytes}`,
      ...common,
    });
  }
  return error;
}

/** Writes a small text file and waits until it is on the disk (fsync). Throws the system's errors. */
export async function writeDurably(options: {
  readonly path: string;
  readonly text: string;
  readonly fileSystem: FileSystem;
}): Promise<void> {
  const handle = await options.fileSystem.open(options.path, 'w');
  try {
    await handle.writeFile(options.text, 'utf8');
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Makes the entries of a directory durable (fsync of the directory itself). Windows refuses to sync a
 * directory, and journals its entries.
 */
export async function syncDirectory(path: string, fileSystem: FileSystem): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await fileSystem.open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
