import { existsSync } from 'node:fs';
import { DataError } from '@mtl/errors';
import { indexedDatasetPaths } from './index-file.js';

/**
 * Throws if a dataset with this prefix exists, because a run may be training on it.
 *
 * @throws DataError MTL_DATA_EXISTS, exit status 2, if the .bin or .idx file exists
 */
export function refuseExistingDataset(prefix: string): void {
  const { binPath, idxPath } = indexedDatasetPaths(prefix);
  refuseExistingFiles([binPath, idxPath], {
    expected: 'a prefix without a dataset',
    remedy: 'name another prefix, or replace that dataset with overwrite: true (mtl data: --overwrite)',
  });
}

/**
 * Throws if any of the given files exists.
 *
 * @throws DataError MTL_DATA_EXISTS, exit status 2
 */
export function refuseExistingFiles(
  paths: readonly string[],
  { expected, remedy }: { readonly expected: string; readonly remedy: string },
): void {
  const found = paths.filter((path) => existsSync(path));
  if (found.length === 0) return;
  const message = `${found.join(' and ')} ${found.length === 1 ? 'exists' : 'exist'} already`;
  throw new DataError('MTL_DATA_EXISTS', message, {
    expected,
    remedy,
    details: { paths: found },
    exitCode: 2,
  });
}
