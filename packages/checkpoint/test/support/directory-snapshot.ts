import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Returns a digest of the bytes of every file below `path`. */
export async function directorySnapshot(path: string): Promise<Record<string, string>> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  const snapshot: Record<string, string> = {};
  for (const entry of entries) {
    const full = join(entry.parentPath, entry.name);
    const name = full.slice(path.length + 1);
    snapshot[name] = entry.isFile()
      ? createHash('sha256')
          .update(await readFile(full))
          .digest('hex')
      : 'directory';
  }
  return snapshot;
}
