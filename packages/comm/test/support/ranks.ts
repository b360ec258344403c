import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { reportEngine } from '@mtl/tooling/report-engine';

export interface RanksOptions {
  readonly module: URL;
  /** Ranks of this host over shared memory; or `hosts`. */
  readonly worldSize?: number;
  /** Over Gloo: the host of every rank, by rank. */
  readonly hosts?: readonly number[];
  readonly argument?: unknown;
  readonly timeoutMs?: number;
  readonly joinTimeoutMs?: number;
  readonly abortGraceMs?: number;
  readonly bufferBytes?: number;
  /** Ranks that are never started. */
  readonly absent?: readonly number[];
  /** Over Gloo; default: the loopback, which all ranks name since they are said to be on several hosts. */
  readonly socketInterface?: string | undefined;
  /** The command that puts a rank on its host. */
  readonly prefixOf?: (host: number) => readonly string[];
}

/** What a rank is told on its command line. */
export interface RankSettings {
  readonly module: string;
  readonly argument: unknown;
  readonly rank: number;
  readonly size: number;
  readonly hosts: readonly number[] | undefined;
  /** Through which ranks find each other. */
  readonly directory: string;
  readonly timeoutMs: number;
  readonly joinTimeoutMs: number;
  readonly abortGraceMs: number;
  readonly bufferBytes: number | undefined;
  readonly socketInterface: string;
}

/** What a rank said at its end. */
export interface Outcome {
  readonly result?: unknown;
  readonly error?: {
    readonly message: string;
    readonly code?: string;
    readonly details: Readonly<Record<string, unknown>>;
  };
  /** Date.now() when the error was caught. */
  readonly at?: number;
}

export interface RankProcess {
  readonly child: ChildProcess;
  /** Everything the rank printed in JSON, and lines of other kinds as they are. */
  readonly lines: (Outcome & Readonly<Record<string, unknown>>)[];
  readonly stderr: () => string;
  /** Resolves with the first line that has this property. */
  readonly said: (property: string) => Promise<Outcome & Readonly<Record<string, unknown>>>;
  /** Resolves when the process has ended, with its exit code or signal. */
  readonly ended: Promise<number | string | null>;
}

const loader = fileURLToPath(import.meta.resolve('@mtl/tooling/typescript-loader'));
const program = fileURLToPath(new URL('./rank-process.ts', import.meta.url));

/** Starts ranks as processes that find each other through a folder. */
export function startRanks(options: RanksOptions): { ranks: RankProcess[]; remove: () => void } {
  const { module, hosts, argument = null, absent = [], bufferBytes, prefixOf = () => [] } = options;
  const { timeoutMs = 20_000, joinTimeoutMs = 30_000, abortGraceMs = 10_000 } = options;
  const { socketInterface = '127.0.0.1', worldSize: size = hosts?.length ?? 0 } = options;
  const directory = mkdtempSync(join(tmpdir(), 'mtl-comm-'));
  const common = { module: module.href, size, hosts, directory, argument, bufferBytes, socketInterface };
  const ranks = Array.from({ length: size }, (_, rank) => rank)
    .filter((rank) => !absent.includes(rank))
    .map((rank) =>
      startRank({ ...common, rank, timeoutMs, joinTimeoutMs, abortGraceMs }, prefixOf(hosts?.[rank] ?? 0)),
    );
  return { ranks, remove: () => rmSync(directory, { recursive: true, force: true }) };
}

/** `prefix`: a command that replaces itself by the rank. */
function startRank(settings: RankSettings, prefix: readonly string[]): RankProcess {
  const [command, ...rest] = [
    ...[...prefix, process.execPath, '--conditions=@mtl/source'],
    ...['--import', `file://${loader}`, program, JSON.stringify(settings)],
  ] as [string, ...string[]];
  const child = spawn(command, rest, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, OMP_NUM_THREADS: '1', NODE_OPTIONS: '' },
  });
  const lines: RankProcess['lines'] = [];
  const listeners: (() => void)[] = [];
  let stderr = '';
  child.stderr!.on('data', (data: Buffer) => {
    stderr += data;
  });
  const ended = new Promise<number | string | null>((resolve) =>
    child.once('close', (code, signal) => {
      resolve(code ?? signal);
      for (const listener of listeners) listener();
    }),
  );
  createInterface({ input: child.stdout! }).on('line', (line) => {
    lines.push(JSON.parse(line));
    for (const listener of listeners) listener();
  });
  const said: RankProcess['said'] = (property) =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const found = lines.find((line) => property in line);
        if (found !== undefined) resolve(found);
        else if (child.exitCode !== null)
          reject(new Error(`a rank ended without ${property}: ${JSON.stringify(lines)} ${stderr}`));
      };
      listeners.push(look);
      look();
    });
  return { child, lines, stderr: () => stderr, said, ended };
}

/** Runs ranks to their end and gives what they returned, by rank, and the engine that did it; or what the first said. */
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

/** Whether a process of this id is still there (a zombie is not). */
export function isRunning({ child }: RankProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}
