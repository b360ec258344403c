import { renameSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import { MtlError } from '../mtl-error.js';

/** Errors of Windows while another program, such as a viewer or a virus scanner, has the file open. */
const inUse = ['EPERM', 'EACCES', 'EBUSY'];

/** The times between attempts, in milliseconds; together 1.3 s. */
const delaysMs = [10, 20, 40, 80, 160, 320, 640];

/**
 * Renames a file or a directory over its target. POSIX renames although other programs have the target open;
 * Windows refuses as long as a program has one of the two open, so the rename is tried again for 1.3 s.
 *
 * @param renameOnce the operation to call, for tests that make it fail
 * @throws MtlError MTL_FILE_IN_USE on Windows when all attempts were refused; other errors of the system
 */
export async function renameFile(from: string, to: string, renameOnce = rename): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await renameOnce(from, to);
    } catch (error) {
      await setTimeout(delayAfter(error, { attempt, to }));
    }
  }
}

/** Renames as `renameFile`, and blocks the thread between attempts. */
export function renameFileSync(from: string, to: string, renameOnce = renameSync): void {
  for (let attempt = 0; ; attempt += 1) {
    try {
      renameOnce(from, to);
      return;
    } catch (error) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, delayAfter(error, { attempt, to }));
    }
  }
}

/** Returns the time to wait before the next attempt; throws if there is no other attempt. */
function delayAfter(error: unknown, { attempt, to }: { attempt: number; to: string }): number {
  const { code, message } = error as NodeJS.ErrnoException;
  if (process.platform !== 'win32' || !inUse.includes(code ?? '')) throw error;
  const delay = delaysMs[attempt];
  if (delay !== undefined) return delay;
  throw new MtlError('MTL_FILE_IN_USE', `${to} cannot be written: ${message}`, {
    remedy: 'close the programs that have this file or folder open, and check its permissions',
    details: { path: to, systemCode: code },
    cause: error,
  });
}
