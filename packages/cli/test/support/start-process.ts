import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { reportEngine } from '@mtl/tooling/report-engine';

/** The rank of test/programs. */
export const rankProgram = fileURLToPath(new URL('../programs/rank.mjs', import.meta.url));

export interface FinishedProcess {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface StartedProcess {
  readonly child: ChildProcess;
  readonly finished: Promise<FinishedProcess>;
}

/** Starts a command; it is killed when it has not ended after 90 s. */
export function startProcess(
  words: readonly string[],
  env: Readonly<Record<string, string | undefined>> = {},
): StartedProcess {
  const [command, ...args] = words;
  const child = spawn(command!, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const finished = new Promise<FinishedProcess>((resolve, reject) => {
    const limit = setTimeout(() => child.kill('SIGKILL'), 90_000);
    const texts = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (text: string) => {
        texts[name] += text;
      });
    }
    child.on('error', reject);
    child.on('close', (status, signal) => {
      clearTimeout(limit);
      resolve({ status, signal, ...texts });
    });
  });
  return { child, finished };
}

/**
 * Returns the lines that the ranks of test/programs/rank.mjs printed, by rank and attempt; prefixes of
 * `mtl run` are taken off.
 */
export function printedRanks(stdout: string): readonly Record<string, unknown>[] {
  const lines = stdout.split('\n').map((line) => line.replace(/^\[\d+\] /, ''));
  const ranks = lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  for (const { engine } of ranks) reportEngine(engine);
  return ranks.sort((left, right) => left.restartCount - right.restartCount || left.rank - right.rank);
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
