import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { reportEngine } from '@mtl/tooling/report-engine';
import type { Run } from './run-gpt-train.js';

/** Path of the command mtl. */
export const mtl = fileURLToPath(new URL('../../../packages/cli/bin/mtl.mjs', import.meta.url));
const app = fileURLToPath(new URL('..', import.meta.url));

/** Path of the built program. */
export const program = fileURLToPath(new URL('../dist/main.js', import.meta.url));

/**
 * Milliseconds after which a run is killed: longer than most runs of a test, shorter than the limit of the
 * test.
 */
const defaultDeadlineMs = 170_000;

export interface RankRunOptions {
  readonly numProcesses: number;
  readonly flags: readonly string[];
  /** The working directory. */
  readonly directory: string;
  readonly maxRestarts?: number;
  /** More flags of the launcher. */
  readonly launcherFlags?: readonly string[];
  /** A command that runs the launcher in its place, on a test host. */
  readonly prefix?: readonly string[];
  readonly variables?: Readonly<Record<string, string>>;
  /** Milliseconds after which the run is killed. */
  readonly deadlineMs?: number;
  /**
   * Called once the launcher runs, with a function that returns the process ids by rank, which change with
   * every restart.
   */
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

/** Starts the command line of any launcher and waits for its end. */
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

/** Reports the engines of a run: at every start, rank 0 prints the engine that all ranks communicate over. */
function reportEngines(output: string, numProcesses: number): void {
  for (const [, engine] of output.matchAll(/ranks communicate over (\S+)/g)) {
    for (let rank = 0; rank < numProcesses; rank++) reportEngine(engine!);
  }
}

/** Returns the ids of the processes that a launcher has started, by the rank in their environment. */
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
      // the process ended while its environment was read
    }
  }
  return ranks;
}
