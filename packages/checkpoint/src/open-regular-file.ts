import { constants, type FileHandle, open } from 'node:fs/promises';
import { CheckpointError } from '@mtl/errors';

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
 * The text of a regular file.
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
