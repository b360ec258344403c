import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { rankModule, workspaceFlags } from '@mtl/tooling/typescript-threads';

export interface FinishedRank {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Seconds since the start of all ranks. */
  readonly seconds: number;
}

export interface StartedJoiningRanks {
  readonly children: readonly ChildProcess[];
  /** The standard output of each rank so far. */
  readonly outputs: readonly string[];
  readonly finished: Promise<FinishedRank[]>;
}

/**
 * Starts a program of test/programs once for each set of variables. Processes that still run after 60 s are
 * killed.
 */
export function startJoiningRanks(
  program: string,
  variables: readonly Readonly<Record<string, string>>[],
): StartedJoiningRanks {
  const path = fileURLToPath(rankModule(new URL(`../programs/${program}`, import.meta.url)));
  const started = performance.now();
  const outputs = variables.map(() => '');
  const children = variables.map((own) =>
    spawn(process.execPath, [...workspaceFlags, path], {
      env: { ...process.env, ...own },
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  );
  const finished = children.map(
    (child, index) =>
      new Promise<FinishedRank>((resolve, reject) => {
        const limit = setTimeout(() => child.kill('SIGKILL'), 60_000);
        let stderr = '';
        child.stdout.setEncoding('utf8').on('data', (text: string) => {
          outputs[index] += text;
        });
        child.stderr.setEncoding('utf8').on('data', (text: string) => {
          stderr += text;
        });
        child.on('error', reject);
        child.on('close', (status, signal) => {
          clearTimeout(limit);
          const seconds = (performance.now() - started) / 1000;
          resolve({ status, signal, stdout: outputs[index]!, stderr, seconds });
        });
      }),
  );
  return { children, outputs, finished: Promise.all(finished) };
}
