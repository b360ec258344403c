import { access, constants, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError } from '@mtl/errors';
import { trackerName } from './checkpoint-names.js';
import { nodeFileSystem } from './file-system.js';
import { withIoErrors } from './io-error.js';
import { makeDirectory } from './make-directory.js';

/**
 * Makes the directory that a training will save into and checks that it will be able to, so that it is known
 * before the first step and not after the last.
 *
 * @param options.numBytes of one checkpoint
 * @throws CheckpointError MTL_CHECKPOINT_DENIED or MTL_CHECKPOINT_IO when it cannot be made or written to,
 *   MTL_CHECKPOINT_DISK_FULL when its file system has no room for one checkpoint
 */
export async function prepareSaveDirectory(options: {
  readonly directory: string;
  readonly numBytes: number;
}): Promise<void> {
  const { directory, numBytes } = options;
  await withIoErrors({ action: 'save into', path: directory, exitCode: 2 }, async () => {
    await makeDirectory(directory, nodeFileSystem);
    // with the dot, a file in its place is found too
    await access(`${directory}/.`, constants.W_OK | constants.X_OK);
    await refuseDirectory(join(directory, trackerName));
  });
  const { bavail, blocks, bsize } = await statfs(directory);
  const numFree = bavail * bsize;
  // some file systems in user space tell nothing
  if (blocks === 0 || numFree >= numBytes) return;
  const inMiB = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  throw new CheckpointError(
    'MTL_CHECKPOINT_DISK_FULL',
    `a checkpoint takes ${inMiB(numBytes)}, and ${directory} has ${inMiB(numFree)} left`,
    { remedy: 'free space there or save to another file system', exitCode: 2 },
  );
}

/** The tracker is replaced by a rename, which no directory is. */
async function refuseDirectory(path: string): Promise<void> {
  const status = await stat(path).catch(() => undefined);
  if (status?.isDirectory() !== true) return;
  throw new CheckpointError('MTL_CHECKPOINT_IO', `${path} is a directory`, {
    expected: 'the file that names the newest checkpoint, or nothing',
    remedy: 'remove or rename it',
    details: { path },
    exitCode: 2,
  });
}
