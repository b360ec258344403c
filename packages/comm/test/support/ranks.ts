import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type RankProcess, startRankProcess } from '@mtl/comm/testing';
import { reportEngine } from '@mtl/tooling/report-engine';
import { rankModule, rankThreads } from '@mtl/tooling/typescript-threads';

export interface RanksOptions {
  readonly module: URL;
  /** The number of ranks, on this host over shared memory; alternative: `hosts`. */
  readonly worldSize?: number;
  /** The host of every rank, by rank, for Gloo. */
  readonly hosts?: readonly number[];
  readonly argument?: unknown;
  readonly timeoutMs?: number;
  readonly joinTimeoutMs?: number;
  readonly abortGraceMs?: number;
  readonly bufferBytes?: number;
  /** Ranks that are never started. */
  readonly absent?: readonly number[];
  /**
   * The network interface for Gloo. Default: the loopback, which has to be named since the ranks claim to be
   * on several hosts.
   */
  readonly socketInterface?: string | undefined;
  /** Returns the command that runs a rank on its host. */
  readonly choosePrefix?: (host: number) => readonly string[];
}

/** The settings of a rank, from its command line. */
export interface RankSettings {
  readonly module: string;
  readonly argument: unknown;
  readonly rank: number;
  readonly size: number;
  readonly hosts: readonly number[] | undefined;
  /** The folder through which ranks find each other. */
  readonly directory: string;
  readonly timeoutMs: number;
  readonly joinTimeoutMs: number;
  readonly abortGraceMs: number;
  readonly bufferBytes: number | undefined;
  readonly socketInterface: string;
}

const { module: program, ...flags } = rankThreads(new URL('./rank-process.ts', import.meta.url));

/** Starts ranks as processes that find each other through a folder. */
export function startRanks(options: RanksOptions): { ranks: RankProcess[]; remove: () => void } {
  const { module, hosts, argument = null, absent = [], bufferBytes, choosePrefix = () => [] } = options;
  const { timeoutMs = 20_000, joinTimeoutMs = 30_000, abortGraceMs = 10_000 } = options;
  const { socketInterface = '127.0.0.1', worldSize: size = hosts?.length ?? 0 } = options;
  const directory = mkdtempSync(join(tmpdir(), 'mtl-comm-'));
  const common = {
    module: rankModule(module).href,
    size,
    hosts,
    directory,
    argument,
    bufferBytes,
    socketInterface,
  };
  const ranks = Array.from({ length: size }, (_, rank) => rank)
    .filter((rank) => !absent.includes(rank))
    .map((rank) => {
      const settings: RankSettings = { ...common, rank, timeoutMs, joinTimeoutMs, abortGraceMs };
      return startRankProcess({
        ...flags,
        program: fileURLToPath(program),
        settings,
        prefix: choosePrefix(hosts?.[rank] ?? 0),
      });
    });
  return { ranks, remove: () => rmSync(directory, { recursive: true, force: true }) };
}

/**
 * Runs ranks until they end. Returns their results, by rank, and the engine that they used; throws the first
 * error that a rank reported.
 */
export async function runRanks<Result>(
  options: RanksOptions,
): Promise<{ results: Result[]; engines: string[] }> {
  const { ranks, remove } = startRanks(options);
  await Promise.all(ranks.map((rank) => rank.ended));
  remove();
  const last = ranks.map(({ lines, stderr }, rank) => {
    const line = lines.at(-1);
    if (line !== undefined && 'result' in line) return line;
    throw new Error(`rank ${rank}: ${line?.error?.message ?? stderr()}`);
  });
  const engines = last.map(({ engine }) => String(engine));
  for (const engine of engines) reportEngine(engine);
  return { results: last.map(({ result }) => result as Result), engines };
}
