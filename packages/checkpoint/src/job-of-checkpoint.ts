import { join } from 'node:path';
import { systemCode, withIoErrors } from './io-error.js';
import { readRegularFile } from './open-regular-file.js';
import { maxOwnerBytes, ownerName, parseSaveOwner } from './save-owner.js';

/**
 * The job that saved a checkpoint, whole or torn. Undefined for one that no run saved, such as a converted
 * one, and for those of versions that did not record jobs.
 *
 * @param path of the checkpoint
 * @throws CheckpointError MTL_CHECKPOINT_IO, _DENIED
 */
export async function jobOfCheckpoint(path: string): Promise<string | undefined> {
  const file = join(path, ownerName);
  return await withIoErrors({ action: 'read', path: file }, async () => {
    try {
      return parseSaveOwner(await readRegularFile(file, { maxBytes: maxOwnerBytes }))?.job;
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw error;
    }
  });
}
