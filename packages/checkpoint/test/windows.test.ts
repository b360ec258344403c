import { promises } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { renameFile } from '@mtl/errors/files';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { FileSystem } from '../src/files/file-system.js';
import { findCheckpoint, saveCheckpoint } from '../src/index.js';
import { stateOfIteration } from './support/states.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const temporary = temporaryDirectory();
beforeEach(() => void vi.spyOn(process, 'platform', 'get').mockReturnValue('win32'));
afterEach(() => vi.restoreAllMocks());

const refuse = (what: string): never => {
  throw Object.assign(new Error(`EPERM: operation not permitted, ${what}`), { code: 'EPERM' });
};

/** The file operations with the refusals of Windows: a directory has no fsync. */
function fileSystemOfWindows(rename = promises.rename): FileSystem {
  return {
    ...promises,
    rename: (from, to) => renameFile(from, to, rename),
    open: async (path: string, flags: string) => {
      if ((await promises.stat(path).catch(() => undefined))?.isDirectory()) refuse('fsync');
      return await promises.open(path, flags);
    },
  } as FileSystem;
}

const save = async (fileSystem: FileSystem, iteration = 3) =>
  await saveCheckpoint({
    directory: temporary.path,
    iteration,
    tensors: stateOfIteration(iteration),
    state: {},
    fileSystem,
  });

it('saves where directories cannot be synced and files are in use for a moment', async () => {
  let calls = 0;
  const rename: typeof promises.rename = async (from, to) => {
    calls += 1;
    if (calls % 3 !== 0) refuse('rename');
    await promises.rename(from, to);
  };
  await save(fileSystemOfWindows(rename));
  await save(fileSystemOfWindows(rename));
  expect(calls).toBe(3 * 6);
  expect(await readdir(temporary.path)).toEqual(['iter_0000003', 'latest_checkpointed_iteration.txt']);
});

it('says what to do, and keeps the older checkpoint, where a file stays in use', async () => {
  await save(fileSystemOfWindows());
  const isNew = (path: unknown): boolean => String(path).endsWith('iter_0000004');
  const rename: typeof promises.rename = async (from, to) =>
    isNew(to) ? refuse('rename') : await promises.rename(from, to);
  await expect(save(fileSystemOfWindows(rename), 4)).rejects.toMatchObject({
    code: 'MTL_FILE_IN_USE',
    remedy: expect.stringContaining('close the programs'),
  });
  const found = await findCheckpoint({ directory: temporary.path, onNotice: () => {} });
  expect(found).toMatchObject({ kind: 'found', checkpoint: { iteration: 3 } });
});
