import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Run } from './run-gpt-train.js';

const mtl = fileURLToPath(new URL('../../../packages/cli/bin/mtl.mjs', import.meta.url));
const app = fileURLToPath(new URL('..', import.meta.url));

/** Longer than any run of a test, shorter than the test's own limit. */
const deadlineMs = 170_000;

export interface RankRunOptions {
  readonly numProcesses: number;
  readonly flags: readonly string[];
  /** The working directory. */
  readonly directory: string;
  readonly maxRestarts?: number;
  /** More flags of the launcher. */
  readonly launcherFlags?: readonly string[];
  /** A command that runs another in its place, on a test host. */
  readonly prefix?: readonly string[];
  readonly variables?: Readonly<Record<string, string>>;
  /** Called once the launcher runs, with the ids of its ranks by rank, which change with every restart. */
  readonly onStart?: (processIds: () => ReadonlyMap<number, number>) => void;
}

/** Starts the built app on several ranks as a user would, by `mtl run`, and waits for its end. */
export function runRanks(options: RankRunOptions): Promise<Run> {
  const { numProcesses, flags, directory, maxRestarts = 0, onStart } = options;
  const { launcherFlags = [], prefix = [], variables = {} } = options;
  const argv = [
    ...[mtl, 'run', '--nproc-per-node', String(numProcesses), '--max-restarts', String(maxRestarts)],
    ...[...launcherFlags, app, '--', ...flags],
  ];
  const [command, ...words] = [...prefix, process.execPath, ...argv];
  return new Promise((resolve, reject) => {
    const child = spawn(command!, words, { cwd: directory, env: { ...process.env, ...variables } });
    // a test that hangs must leave nobody behind: the ranks die with their launcher
    const deadline = setTimeout(() => child.kill('SIGKILL'), deadlineMs);
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        output += chunk.toString();
      });
    }
    child.on('error', reject);
    child.on('close', (code) => {
      clearTimeout(deadline);
      resolve({ code, output });
    });
    onStart?.(() => rankProcesses(child.pid!));
  });
}

/** The processes that a launcher has started, by the rank in their environment. */
function rankProcesses(launcher: number): ReadonlyMap<number, number> {
  const ranks = new Map<number, number>();
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const parent = /^\d+ \(.*\) \S (\d+)/.exec(readFileSync(`/proc/${entry}/stat`, 'utf8'))?.[1];
      if (Number(parent) !== launcher) continue;
      const rank = /(?:^|\0)RANK=(\d+)/.exec(readFileSync(`/proc/${entry}/environ`, 'utf8'))?.[1];
      if (rank !== undefined) ranks.set(Number(rank), Number(entry));
    } catch {
      // it ended while being looked at
    }
  }
  return ranks;
}
