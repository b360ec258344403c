import { closeSync, fsyncSync, openSync } from 'node:fs';
import { dirname } from 'node:path';

/** Makes the renames in the directory of `path` survive a power failure. */
export function syncDirectoryOf(path: string): void {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(dirname(path), 'r');
    fsyncSync(descriptor);
  } catch {
    // Some file systems (network shares, Windows) refuse to sync a directory; the rename itself is still
    // atomic.
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}
