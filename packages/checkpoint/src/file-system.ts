import * as promises from 'node:fs/promises';

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
