import { mkdir, readdir, rm, rmdir } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { CheckpointError, MtlError } from '@mtl/errors';
import { renameFile } from '@mtl/errors/files';

/**
 * The directory to write, and the error codes to use. Default: the error codes for Hugging Face directories.
 */
interface PublishedDirectory {
  readonly directory: string;
  /** The error code if the directory is not empty. */
  readonly exists?: `MTL_${string}`;
  /** The error code if the directory cannot be written. */
  readonly failed?: `MTL_${string}`;
}

/** Rejects a target directory that is not empty, because its files would be mixed with the written files. */
async function checkTarget(directory: string, exists: `MTL_${string}`): Promise<void> {
  const present = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  if (present.length === 0) return;
  throw new CheckpointError(exists, `${directory} holds ${present.slice(0, 4).join(', ')} already`, {
    expected: 'a new or an empty directory',
    remedy: 'choose another name, or delete the old model',
    exitCode: 2,
  });
}

/**
 * Writes a directory atomically: `write` fills a temporary directory in the same parent, which is then
 * renamed. If an error is thrown, the temporary directory is deleted and nothing has been written to the
 * target.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_EXISTS when the directory is not empty, MTL_HUGGING_FACE_IO, or
 *   the codes of `target`; any coded error that `write` throws
 */
export async function publishDirectory(
  target: PublishedDirectory,
  write: (directory: string) => Promise<void>,
): Promise<void> {
  const { exists = 'MTL_HUGGING_FACE_EXISTS', failed = 'MTL_HUGGING_FACE_IO' } = target;
  const directory = resolve(target.directory);
  const unfinished = join(dirname(directory), `.${basename(directory)}.saving-${process.pid}`);
  try {
    await checkTarget(directory, exists);
    await mkdir(unfinished, { recursive: true });
    await write(unfinished);
    // `rename` replaces an empty directory only on POSIX
    await rmdir(directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
    await renameFile(unfinished, directory);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    if (MtlError.isInstance(error)) throw error;
    throw new CheckpointError(
      failed,
      `the model cannot be saved to ${directory}: ${(error as Error).message}`,
      { remedy: 'choose a directory that can be written to', cause: error },
    );
  }
}
