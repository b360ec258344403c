import { existsSync } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { CheckpointError, MtlError } from '@mtl/errors';
import { renameFile } from '@mtl/errors/files';

/**
 * Writes a file atomically: `write` fills a temporary file in the same directory, which is then renamed. If
 * an error is thrown, the temporary file is deleted, and `path` is unchanged.
 *
 * @throws CheckpointError MTL_GGUF_EXISTS if the path exists, MTL_GGUF_IO; any coded error that `write`
 *   throws
 */
export async function publishFile(path: string, write: (handle: FileHandle) => Promise<void>): Promise<void> {
  const target = resolve(path);
  if (existsSync(target)) {
    throw new CheckpointError('MTL_GGUF_EXISTS', `${path} exists already`, {
      expected: 'the name of a new file',
      remedy: 'choose another name, or delete the old file',
      exitCode: 2,
    });
  }
  const unfinished = join(dirname(target), `.${basename(target)}.saving-${process.pid}`);
  let handle: FileHandle | undefined;
  try {
    handle = await open(unfinished, 'w');
    await write(handle);
    await handle.sync();
    await handle.close();
    await renameFile(unfinished, target);
  } catch (error) {
    await handle?.close().catch(() => undefined);
    await rm(unfinished, { force: true });
    if (MtlError.isInstance(error)) throw error;
    throw new CheckpointError('MTL_GGUF_IO', `${path} cannot be written: ${(error as Error).message}`, {
      remedy: 'choose a folder that exists and can be written to, with space for the file',
      cause: error,
    });
  }
}
