import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { reportEngine } from '@mtl/tooling/report-engine';
import type { Run } from './run-gpt-train.js';

/** The command mtl. */
export const mtl = fileURLToPath(new URL('../../../packages/cli/bin/mtl.mjs', import.meta.url));
const app = fileURLToPath(new URL('..', import.meta.url));

/** The built program. */
export const program = fileURLToPath(new URL('../dist/main.js', import.meta.url));

/** Longer than most runs of a test, shorter than the test's own limit. */
const defaultDeadlineMs = 170_000;

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
  /** When the run is given up. */
  readonly deadlineMs?: number;
  /** Called once the launcher runs, with the ids of its ranks by rank, which change with every restart. */
  readonly onStart?: (processIds: () => ReadonlyMap<number, number>) => void;
}

/** Starts the built app on several ranks as a user would, by `mtl run`, and waits for its end. */
export function runRanks(options: RankRunOptions): Promise<Run> {
  const { numProcesses, flags, maxRestarts = 0, launcherFlags = [], prefix = [] } = options;
  const argv = [
    ...[mtl, 'run', '--nproc-per-node', String(numProcesses), '--max-restarts', String(maxRestarts)],
    ...[...launcherFlags, app, '--', ...flags],
  ];
  return runLauncher([...prefix, process.execPath, ...argv], options);
}

export type LauncherRunOptions = Pick<
  RankRunOptions,
  'numProcesses' | 'directory' | 'variables' | 'deadlineMs' | 'onStart'
>;

/** Starts the words of any launcher and waits for its end. */
export function runLauncher(
  [command, ...words]: readonly string[],
  options: LauncherRunOptions,
): Promise<Run> {
  const { directory, variables = {}, deadlineMs = defaultDeadlineMs, onStart } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(command!, words, { cwd: directory, env: { ...process.env, ...variables } });
    // a test that hangs must leave no process behind: the ranks die with their launcher
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
      reportEngines(output, options.numProcesses);
      resolve({ code, output });
    });
    onStart?.(() => rankProcesses(child.pid!));
  });
}

/** Rank 0 says, at every start, over which engine all of them communicate. */
function reportEngines(output: string, numProcesses: number): void {
  for (const [, engine] of output.matchAll(/ranks communicate over (\S+)/g)) {
    for (let rank = 0; rank < numProcesses; rank++) reportEngine(engine!);
  }
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
