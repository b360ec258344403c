import { spawnSync } from 'node:child_process';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { makeDirectory } from '../src/files/file-system.js';
import { prepareSaveDirectory } from '../src/internal/index.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const temporary = temporaryDirectory();
const numBytes = 1;

describe('prepareSaveDirectory', () => {
  it('makes directories below each other, and takes one that is there', async () => {
    const directory = join(temporary.path, 'a/b/c');
    await prepareSaveDirectory({ directory, numBytes });
    await prepareSaveDirectory({ directory, numBytes });
    expect((await stat(directory)).isDirectory()).toBe(true);
  });

  it.each(['', '/below'])('refuses a file in its place%s', async (below) => {
    const file = join(temporary.path, 'file');
    await writeFile(file, '');
    await expect(prepareSaveDirectory({ directory: `${file}${below}`, numBytes })).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_DENIED',
      message: expect.stringMatching(/a file is in the place of a directory$/) as string,
      exitCode: 2,
    });
  });

  it('refuses a file system without room for a checkpoint, and one that is read-only', async ({ skip }) => {
    const disk = join(temporary.path, 'disk');
    await mkdir(disk);
    const mount = (options: string) => spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', disk]);
    if (mount('size=256k').status !== 0) skip('mounting a tmpfs needs root');
    try {
      await expect(prepareSaveDirectory({ directory: disk, numBytes: 2 ** 20 })).rejects.toMatchObject({
        code: 'MTL_CHECKPOINT_DISK_FULL',
        message: `a checkpoint takes 1.0 MiB, and ${disk} has 0.3 MiB left`,
      });
      await prepareSaveDirectory({ directory: disk, numBytes: 2 ** 17 });
      mount('remount,ro');
      for (const directory of [disk, join(disk, 'new/run')]) {
        await expect(prepareSaveDirectory({ directory, numBytes })).rejects.toMatchObject({
          code: 'MTL_CHECKPOINT_DENIED',
          message: expect.stringContaining('EROFS') as string,
        });
      }
    } finally {
      spawnSync('umount', [disk]);
    }
  });
});

it('makeDirectory ends where the system will not make one, though it says that the one above is missing', async () => {
  const missing = Object.assign(new Error('ENOENT: mkdir'), { code: 'ENOENT' });
  let numCalls = 0;
  const fileSystem = {
    mkdir: async () => {
      numCalls += 1;
      throw missing;
    },
    stat,
  } as unknown as Parameters<typeof makeDirectory>[1];
  await expect(makeDirectory(join(temporary.path, 'x'), fileSystem)).rejects.toBe(missing);
  expect(numCalls).toBe(1);
});
