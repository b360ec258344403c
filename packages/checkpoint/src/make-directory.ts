import { dirname } from 'node:path';
import type { FileSystem } from './file-system.js';
import { systemCode } from './io-error.js';

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
