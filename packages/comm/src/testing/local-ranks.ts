import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { LocalRankSettings } from './local-rank.js';
import { type RankProcess, type RankProcessOptions, startRankProcess } from './rank-process.js';

export interface LocalRanksOptions extends Pick<RankProcessOptions, 'preload' | 'execArgv'> {
  /** The module whose default export is called on each rank: `(world, argument) => result`. */
  readonly module: URL;
  readonly worldSize: number;
  /** An argument that is passed to every rank, as JSON. */
  readonly argument?: unknown;
  /** How long an operation waits for the other ranks, at most, in milliseconds. Default: 20 000. */
  readonly timeoutMs?: number;
  /** How long to wait for all ranks to join, in milliseconds. Default: 30 000. */
  readonly joinTimeoutMs?: number;
  /** See LocalWorldOptions. */
  readonly abortGraceMs?: number;
  readonly bufferBytes?: number;
  /** Ranks that are not started, to test the reaction of the other ranks. */
  readonly absent?: readonly number[];
}

// the entry is next to this file, in the sources and in the build. It is plain JavaScript, so that Node can
// start it
const entry = import.meta.url.endsWith('.ts') ? './local-rank-entry.mjs' : './local-rank-entry.js';

/**
 * Starts ranks as processes of this host, which find each other through a folder. `remove` deletes the
 * folder; it must be called after the processes have ended.
 */
export function startLocalRanks(options: LocalRanksOptions): { ranks: RankProcess[]; remove: () => void } {
  const { module, worldSize, argument = null, absent = [], timeoutMs = 20_000, bufferBytes } = options;
  const { joinTimeoutMs = 30_000, abortGraceMs = 10_000, preload, execArgv } = options;
  const directory = mkdtempSync(join(tmpdir(), 'mtl-comm-'));
  const ranks = Array.from({ length: worldSize }, (_, rank) => rank)
    .filter((rank) => !absent.includes(rank))
    .map((rank) => {
      const limits = { timeoutMs, joinTimeoutMs, abortGraceMs, bufferBytes };
      const settings: LocalRankSettings = {
        module: module.href,
        rank,
        size: worldSize,
        directory,
        argument,
        ...limits,
      };
      const program = fileURLToPath(new URL(entry, import.meta.url));
      return startRankProcess({ program, settings, preload, execArgv });
    });
  return { ranks, remove: () => rmSync(directory, { recursive: true, force: true }) };
}

/**
 * Runs ranks as processes of this host, connected by shared memory, and returns their results by rank. Throws
 * the error of the first rank that fails. The function differs from `runInMemoryRanks` in its engine, which
 * is the engine of real jobs.
 */
export async function runLocalRanks<Result>(options: LocalRanksOptions): Promise<Result[]> {
  const { ranks, remove } = startLocalRanks(options);
  await Promise.all(ranks.map((rank) => rank.ended));
  remove();
  return ranks.map(({ lines, stderr }, rank) => {
    const last = lines.at(-1);
    if (last === undefined || !('result' in last)) {
      throw new Error(`rank ${rank}: ${last?.error?.message ?? stderr()}`);
    }
    return last.result as Result;
  });
}
