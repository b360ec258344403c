import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** The process that writes (or wrote) a checkpoint: kept in its directory as {@link ownerName}. */
export interface SaveOwner {
  /** Made anew for every save. */
  readonly token: string;
  readonly host: string;
  readonly pid: number;
  /** Tells a process from a later one with the same pid; empty where the system does not say. */
  readonly processStart: string;
  /** Tells apart machines, boots and containers, in which the same pid is another process. */
  readonly system: string;
}

export const ownerName = 'saved_by.json';

function readOr(read: () => string): string {
  try {
    return read().trim();
  } catch {
    // Not Linux, or no /proc: the other marks have to do.
    return '';
  }
}

/** When process `pid` started, in clock ticks since boot (field 22 of /proc/PID/stat); empty when unknown. */
function processStart(pid: number): string {
  const stat = readOr(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The second field is the program's name in parentheses and may hold spaces.
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}

function system(): string {
  const boot = readOr(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'));
  const namespace = readOr(() => readlinkSync('/proc/self/ns/pid'));
  return [hostname(), boot, namespace].join(' ');
}

/** This process, about to save. */
export function newSaveOwner(): SaveOwner {
  const { pid } = process;
  return { token: randomUUID(), host: hostname(), pid, processStart: processStart(pid), system: system() };
}

/** The owner that the text of a saved_by.json names, or undefined when it is not whole. */
export function parseSaveOwner(text: string): SaveOwner | undefined {
  try {
    const owner = JSON.parse(text) as SaveOwner;
    const strings = [owner.token, owner.host, owner.processStart, owner.system];
    return strings.every((s) => typeof s === 'string') && Number.isSafeInteger(owner.pid) ? owner : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Whether the process of `owner` still does that save: 'unknown' on another machine or in another container,
 * and in this very process, where another thread may be at it.
 */
export function livenessOf(owner: SaveOwner): 'alive' | 'dead' | 'unknown' {
  if (owner.system !== system()) return 'unknown';
  try {
    process.kill(owner.pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return 'dead';
  }
  if (processStart(owner.pid) !== owner.processStart) return 'dead';
  return owner.pid === process.pid ? 'unknown' : 'alive';
}
