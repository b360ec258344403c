import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface LocalRanksOptions {
  readonly module: URL;
  readonly worldSize: number;
  readonly argument?: unknown;
  readonly timeoutMs?: number;
  readonly joinTimeoutMs?: number;
  readonly abortGraceMs?: number;
  readonly bufferBytes?: number;
  /** Ranks that are never started. */
  readonly absent?: readonly number[];
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
const localProgram = fileURLToPath(new URL('./rank-process.ts', import.meta.url));

/** Starts ranks as processes of this host that find each other through a folder. */
export function startLocalRanks(options: LocalRanksOptions): { ranks: RankProcess[]; remove: () => void } {
  const { module, worldSize, argument = null, absent = [], timeoutMs = 20_000, bufferBytes } = options;
  const { joinTimeoutMs = 30_000, abortGraceMs = 10_000 } = options;
  const directory = mkdtempSync(join(tmpdir(), 'mtl-comm-'));
  const ranks = Array.from({ length: worldSize }, (_, rank) => rank)
    .filter((rank) => !absent.includes(rank))
    .map((rank) => {
      const settings = { module: module.href, rank, size: worldSize, directory, argument };
      const limits = { timeoutMs, joinTimeoutMs, abortGraceMs, bufferBytes };
      return startRank(JSON.stringify({ ...settings, ...limits }));
    });
  return { ranks, remove: () => rmSync(directory, { recursive: true, force: true }) };
}

/** `program`: what each rank runs; `prefix`: a command that replaces itself by it. */
export function startRank(
  settings: string,
  { program = localProgram, prefix = [] }: { program?: string; prefix?: readonly string[] } = {},
): RankProcess {
  const [command, ...rest] = [
    ...[...prefix, process.execPath, '--conditions=@mtl/source'],
    ...['--import', `file://${loader}`, program, settings],
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

/** Runs ranks to their end and gives what they returned, by rank; throws what the first of them to fail said. */
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

/** Whether a process of this id is still there (a zombie is not). */
export function isRunning({ child }: RankProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}
