import { mkdirSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';
import { BinaryFileWriter } from './binary-file-writer.js';
import { syncDirectoryOf } from './sync-directory.js';
import { temporaryPath } from './temporary-path.js';

/**
 * Writes `parts` one after another as `path`: a reader sees the old file or the whole new one, never a torn
 * one.
 */
export function writeFileAtomically(path: string, parts: readonly (ArrayBufferView | string)[]): void {
  mkdirSync(dirname(path), { recursive: true });
  const writer = new BinaryFileWriter({ path: temporaryPath(path) });
  try {
    for (const part of parts) writer.write(typeof part === 'string' ? Buffer.from(part, 'utf8') : part);
    writer.finish();
    renameSync(writer.path, path);
  } catch (error) {
    writer.discard();
    throw error;
  }
  syncDirectoryOf(path);
}
