import { DataError } from '@mtl/errors';

/** First bytes of every .idx file. */
export const indexMagic = Buffer.from('MMIDIDX\0\0', 'latin1');
/** The only format version there is. */
export const indexVersion = 1;
/** Magic 9, version 8, dtype code 1, sequence count 8, document index count 8. */
export const indexHeaderBytes = 34;

/** The two files of a dataset: users may name the prefix or either file. */
export function indexedDatasetPaths(prefix: string): { prefix: string; binPath: string; idxPath: string } {
  const bare = prefix.endsWith('.bin') || prefix.endsWith('.idx') ? prefix.slice(0, -4) : prefix;
  return { prefix: bare, binPath: `${bare}.bin`, idxPath: `${bare}.idx` };
}

/** The error of an indexed dataset that is missing, torn or contradicts itself. */
export function indexedDatasetError(
  path: string,
  what: string,
  options: { expected?: string; remedy?: string; details?: Record<string, unknown>; cause?: unknown } = {},
): DataError {
  return new DataError('MTL_DATA_INDEXED_DATASET', `${path}: ${what}`, {
    remedy: 'write the dataset again from its corpus, or copy both the .bin and the .idx file again',
    ...options,
    details: { path, ...options.details },
  });
}
