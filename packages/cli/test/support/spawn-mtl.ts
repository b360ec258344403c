import { spawn } from 'node:child_process';
import { mtlCommand } from './mtl-command.js';

export interface FinishedMtl {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface SpawnMtlOptions {
  readonly cwd: string;
  /** The words that start the program. Default: the words of `mtl`. */
  readonly program?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Standard input. Default: none. */
  readonly input?: string;
  /** Called with a way to send signals as soon as the process has started. */
  readonly onStart?: (kill: (signal: NodeJS.Signals) => void) => void;
}

/** Runs the command to its end in a new process. */
export function spawnMtl(
  argv: readonly string[],
  { cwd, program = mtlCommand, env = {}, input, onStart }: SpawnMtlOptions,
): Promise<FinishedMtl> {
  return new Promise((resolve, reject) => {
    const [command, ...words] = program;
    const child = spawn(command!, [...words, ...argv], {
      cwd,
      env: { ...process.env, ...env },
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    });
    child.stdin?.end(input);
    onStart?.((signal) => child.kill(signal));
    const stdout: string[] = [];
    const stderr: string[] = [];
    child.stdout!.setEncoding('utf8').on('data', (text: string) => stdout.push(text));
    child.stderr!.setEncoding('utf8').on('data', (text: string) => stderr.push(text));
    child.on('error', reject);
    child.on('close', (status) => resolve({ status, stdout: stdout.join(''), stderr: stderr.join('') }));
  });
}
