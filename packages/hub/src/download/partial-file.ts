import { createHash } from 'node:crypto';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';

/** After this time without a write a download of another host counts as abandoned. */
const abandonedMs = 3_600_000;

/** This host, in the names of partial files: a cache may be on storage that several hosts share. */
const host = createHash('sha256').update(hostname()).digest('hex').slice(0, 8);

/** The number of the download among those of this process. */
let numClaims = 0;

/**
 * Returns the path of a partial file of this process alone, with the bytes that an interrupted download has
 * left, if any. The name tells the writer (`ETAG.HOST-PID-NUMBER.incomplete`), so that no two processes write
 * to one file, and no lock can be left behind: taking over an abandoned file is one rename, which only one
 * process wins.
 *
 * @param blobPath the path of the whole file, `blobs/ETAG`
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

/** Removes what interrupted downloads of a file have left, after it is whole. */
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

/** `claimed`: files of this process that a download writes to. */
const claimed = new Set<string>();

/** Marks a file of this process as in use, or as no longer in use. */
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
    // a process of another user
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
