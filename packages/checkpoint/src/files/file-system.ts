import * as promises from 'node:fs/promises';
import { constants, type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CheckpointError } from '@mtl/errors';
import { systemCode } from './io-error.js';

/**
 * The file operations this package uses, as in `node:fs/promises`. Everything that writes takes one of these,
 * so that tests can make any single operation fail.
 */
export type FileSystem = Pick<
  typeof promises,
  'mkdir' | 'open' | 'readFile' | 'readdir' | 'rename' | 'rm' | 'stat'
>;

/** The file system of the machine. */
export const nodeFileSystem: FileSystem = promises;

/**
 * Makes a directory and those above it, one by one. Node's own recursive mkdir reports a read-only file
 * system as ENOENT, and never ends where mkdir says ENOENT though the directory above is there (procfs,
 * automounts).
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
    // once more, and without going up: the directory above is there
    await fileSystem.mkdir(directory).catch((again: unknown) => {
      // another rank was faster
      if (systemCode(again) !== 'EEXIST') throw again;
    });
  }
}

/**
 * Opens a regular file for reading. A FIFO, a socket or a device in its place is refused at once: opened as a
 * file is, a FIFO waits for a writer for ever.
 *
 * @throws CheckpointError MTL_CHECKPOINT_IO (wrong input) when it is no regular file; the system's errors
 */
export async function openRegularFile(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const status = await handle.stat();
    if (status.isFile()) return handle;
    throw new CheckpointError('MTL_CHECKPOINT_IO', `${path} is ${kindOf(status)}`, {
      expected: 'a regular file',
      details: { path },
      exitCode: 2,
    });
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/**
 * Reads the text of a regular file.
 *
 * @param options.maxBytes a larger file is refused before it is read
 * @throws CheckpointError MTL_CHECKPOINT_IO (wrong input) when it is no regular file or too large; the
 *   system's errors
 */
export async function readRegularFile(
  path: string,
  { maxBytes }: { readonly maxBytes: number },
): Promise<string> {
  const handle = await openRegularFile(path);
  try {
    const { size } = await handle.stat();
    if (size <= maxBytes) return await handle.readFile('utf8');
    throw new CheckpointError('MTL_CHECKPOINT_IO', `${path} has ${size} bytes`, {
      expected: `at most ${maxBytes}`,
      details: { path },
      exitCode: 2,
    });
  } finally {
    await handle.close();
  }
}

function kindOf(status: Awaited<ReturnType<FileHandle['stat']>>): string {
  if (status.isDirectory()) return 'a directory';
  if (status.isFIFO()) return 'a FIFO';
  return 'a device or a socket';
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

/** Makes the names in a directory durable (fsync of the directory itself). */
export async function syncDirectory(path: string, fileSystem: FileSystem): Promise<void> {
  const handle = await fileSystem.open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
