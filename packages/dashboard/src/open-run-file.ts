import { constants, type FileHandle, open } from 'node:fs/promises';

/** What is no file of the run: missing, a link that may lead elsewhere, a folder, not ours to read. */
const absent = ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM'];

/**
 * Opens a file of a run for reading; undefined where there is no regular file of that name. Links are not
 * followed, so that nothing outside of the run is read; FIFOs and devices are left alone.
 */
export async function openRunFile(path: string): Promise<FileHandle | undefined> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (absent.includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
  if ((await file.stat()).isFile()) return file;
  await file.close();
  return undefined;
}
