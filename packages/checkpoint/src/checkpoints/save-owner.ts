import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { readRegularFile } from '../files/file-system.js';
import { systemCode, withIoErrors } from '../files/io-error.js';

/**
 * The process that writes (or wrote) a checkpoint. The checkpoint's directory contains this record as {@link
 * ownerName}.
 */
export interface SaveOwner {
  /** An identifier of the save, different for every save. */
  readonly token: string;
  readonly host: string;
  readonly pid: number;
  /**
   * The start time of the process, which distinguishes it from later processes with the same pid. Empty if
   * the system does not report it.
   */
  readonly processStart: string;
  /** Identifies the machine, its boot and the container, because pids are unique only within these. */
  readonly system: string;
  /** The job of the saving run, which stays the same after every restart; absent outside of a run. */
  readonly job?: string;
}

export const ownerName = 'saved_by.json';
/** The maximum size of an owner's record, in bytes. */
export const maxOwnerBytes = 1024 * 1024;

function readOr(read: () => string): string {
  try {
    return read().trim();
  } catch {
    // the system is not Linux, or has no /proc, so only the other fields identify the process
    return '';
  }
}

/**
 * Reads the state and the start time (in clock ticks since boot) of process `pid`: fields 3 and 22 of
 * /proc/PID/stat.
 */
function processStat(pid: number): { readonly state: string; readonly start: string } {
  const stat = readOr(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The second field is the program's name in parentheses, which may contain spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', start: fields[19] ?? '' };
}

function system(): string {
  const boot = readOr(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'));
  const namespace = readOr(() => readlinkSync('/proc/self/ns/pid'));
  return [hostname(), boot, namespace].join(' ');
}

/** Returns a record that names this process as the owner of a new save. */
export function newSaveOwner({ job }: { readonly job?: string | undefined } = {}): SaveOwner {
  const { pid } = process;
  return {
    token: randomUUID(),
    host: hostname(),
    pid,
    processStart: processStat(pid).start,
    system: system(),
    ...(job === undefined ? {} : { job }),
  };
}

/** Parses the text of a saved_by.json. Returns undefined if it is incomplete. */
export function parseSaveOwner(text: string): SaveOwner | undefined {
  try {
    const owner = JSON.parse(text) as SaveOwner;
    const strings = [owner.token, owner.host, owner.processStart, owner.system, owner.job ?? ''];
    return strings.every((s) => typeof s === 'string') && Number.isSafeInteger(owner.pid) ? owner : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns the state of `owner`'s process. `unknown`: the process is on a different machine or in a different
 * container. `self`: the owner is this process, perhaps in a different thread. A zombie (an ended process for
 * which its parent has not waited) is dead.
 */
export function checkLiveness(owner: SaveOwner): 'alive' | 'dead' | 'self' | 'unknown' {
  if (owner.system !== system()) return 'unknown';
  try {
    process.kill(owner.pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return 'dead';
  }
  const { state, start } = processStat(owner.pid);
  if (start !== owner.processStart || state === 'Z' || state === 'X') return 'dead';
  return owner.pid === process.pid ? 'self' : 'alive';
}

/**
 * Reads the job that saved a checkpoint. The checkpoint may be incomplete. Returns undefined for a checkpoint
 * that no run saved, such as a converted checkpoint, and for older checkpoints, which do not record jobs.
 *
 * @param path the path of the checkpoint
 * @throws CheckpointError MTL_CHECKPOINT_IO, _DENIED
 */
export async function jobOfCheckpoint(path: string): Promise<string | undefined> {
  const file = join(path, ownerName);
  return await withIoErrors({ action: 'read', path: file }, async () => {
    try {
      return parseSaveOwner(await readRegularFile(file, { maxBytes: maxOwnerBytes }))?.job;
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw error;
    }
  });
}
