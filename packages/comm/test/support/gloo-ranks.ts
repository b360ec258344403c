import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type RankProcess, startRankProcess } from '@mtl/comm/testing';
import { reportEngine } from '@mtl/tooling/report-engine';
import { typescriptThreads } from '@mtl/tooling/typescript-threads';

export interface GlooRanksOptions {
  readonly module: URL;
  /** The host of every rank, by rank. */
  readonly hosts: readonly number[];
  readonly argument?: unknown;
  readonly timeoutMs?: number;
  readonly abortGraceMs?: number;
  /** Default: the loopback, which all ranks name since they are said to be on several hosts. */
  readonly socketInterface?: string | undefined;
  /** The command that puts a rank on its host. */
  readonly prefixOf?: (host: number) => readonly string[];
}

const program = fileURLToPath(new URL('./gloo-rank-process.ts', import.meta.url));

/** Starts ranks as processes that find each other through a folder and talk over Gloo. */
export function startGlooRanks(options: GlooRanksOptions): { ranks: RankProcess[]; remove: () => void } {
  const { module, hosts, argument = null, timeoutMs = 20_000, abortGraceMs = 10_000 } = options;
  const { socketInterface = '127.0.0.1', prefixOf = () => [] } = options;
  const directory = mkdtempSync(join(tmpdir(), 'mtl-gloo-'));
  const ranks = hosts.map((host, rank) => {
    const limits = { timeoutMs, abortGraceMs, socketInterface };
    const settings = { module: module.href, rank, hosts, directory, argument, ...limits };
    return startRankProcess({ ...typescriptThreads, program, settings, prefix: prefixOf(host) });
  });
  return { ranks, remove: () => rmSync(directory, { recursive: true, force: true }) };
}

/** Runs ranks to their end and gives what they returned, by rank, and the engine that did it. */
export async function runGlooRanks<Result>(
  options: GlooRanksOptions,
): Promise<{ results: Result[]; engines: unknown[] }> {
  const { ranks, remove } = startGlooRanks(options);
  await Promise.all(ranks.map((rank) => rank.ended));
  remove();
  const last = ranks.map(({ lines, stderr }, rank) => {
    const line = lines.at(-1);
    if (line === undefined || !('result' in line))
      throw new Error(`rank ${rank}: ${line?.error?.message ?? stderr()}`);
    return line;
  });
  const engines = last.map(({ engine }) => engine);
  for (const engine of engines) reportEngine(String(engine));
  return { results: last.map(({ result }) => result as Result), engines };
}
