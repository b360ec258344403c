import { createHash } from 'node:crypto';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';

/** How long a download on a different host may write nothing before it counts as abandoned. */
const abandonedMs = 3_600_000;

/** Identifies this host in the names of partial files, because several hosts may share the cache. */
const host = createHash('sha256').update(hostname()).digest('hex').slice(0, 8);

/** How many downloads this process has started. */
let numClaims = 0;

/**
 * Returns the path of a partial file that only this process uses. It may already contain the bytes of an
 * interrupted download. The name identifies the writer (`ETAG.HOST-PID-COUNT.incomplete`), so no two
 * processes write to the same file and no lock is needed. To take over an abandoned file, a process renames
 * it, which succeeds in only one process.
 *
 * @param blobPath the path of the complete file, `blobs/ETAG`
 */
export async function claimPartialFile(blobPath: string): Promise<string> {
  numClaims += 1;
  const own = `${blobPath}.${host}-${process.pid}-${numClaims}.incomplete`;
  const abandoned = await abandonedFiles(blobPath);
  // the largest saves most
  for (const { path } of abandoned.sort((a, b) => b.bytes - a.bytes)) {
    try {
      await rename(path, own);
      return own;
    } catch {
      // another process was faster
    }
  }
  return own;
}

/** Removes the partial files of interrupted downloads. Called once the complete file exists. */
export async function removeAbandonedFiles(blobPath: string): Promise<void> {
  for (const { path } of await abandonedFiles(blobPath)) await rm(path, { force: true });
}

async function abandonedFiles(blobPath: string): Promise<{ path: string; bytes: number }[]> {
  const folder = dirname(blobPath);
  const names = await readdir(folder).catch(() => []);
  const found: { path: string; bytes: number }[] = [];
  for (const name of names) {
    if (!name.startsWith(`${basename(blobPath)}.`) || !name.endsWith('.incomplete')) continue;
    const status = await stat(join(folder, name)).catch(() => undefined);
    if (status === undefined || !isAbandoned(name, status.mtimeMs)) continue;
    found.push({ path: join(folder, name), bytes: status.size });
  }
  return found;
}

/** The names of this process's partial files to which a download is writing. */
const claimed = new Set<string>();

/** Marks one of this process's partial files as in use, or as no longer in use. */
export function markClaimed(path: string, isInUse: boolean): void {
  if (isInUse) claimed.add(basename(path));
  else claimed.delete(basename(path));
}

function isAbandoned(name: string, changedMs: number): boolean {
  const [, writtenOn, pid] = /\.([0-9a-f]{8})-(\d+)-\d+\.incomplete$/.exec(name) ?? [];
  if (writtenOn !== host) return Date.now() - changedMs > abandonedMs;
  if (Number(pid) === process.pid) return !claimed.has(name);
  return !isAlive(Number(pid));
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process exists, but a different user owns it
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
