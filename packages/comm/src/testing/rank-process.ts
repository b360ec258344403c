import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** The last line that a rank prints: its result or an error. */
export interface Outcome {
  readonly result?: unknown;
  readonly error?: {
    readonly message: string;
    readonly code?: string;
    readonly details: Readonly<Record<string, unknown>>;
  };
  /** The value of Date.now() when the error was caught. */
  readonly at?: number;
}

/** A rank that runs as a separate process and prints lines of JSON. */
export interface RankProcess {
  readonly child: ChildProcess;
  /** All lines of JSON that the rank has printed so far. */
  readonly lines: (Outcome & Readonly<Record<string, unknown>>)[];
  readonly stderr: () => string;
  /** Resolves to the first printed line that has `property`. */
  readonly said: (property: string) => Promise<Outcome & Readonly<Record<string, unknown>>>;
  /** Resolves to the exit code or signal after the process has ended. */
  readonly ended: Promise<number | string | null>;
}

export interface RankProcessOptions {
  /** The path of the program that Node.js runs. */
  readonly program: string;
  /** The argument of the program, passed as JSON. */
  readonly settings: object;
  /** A module that is imported before the program, for example a TypeScript loader. */
  readonly preload?: URL | undefined;
  /** Node's flags, such as export conditions. */
  readonly execArgv?: readonly string[] | undefined;
  /** A command that runs the rank's program, such as `ip netns exec`, and the arguments of the command. */
  readonly prefix?: readonly string[];
}

/** Starts a rank process. Kernels use one thread, because the ranks of a test may outnumber the cores. */
export function startRankProcess(options: RankProcessOptions): RankProcess {
  const { program, settings, preload, execArgv = [], prefix = [] } = options;
  const imports = preload === undefined ? [] : ['--import', preload.href];
  const command = [...prefix, process.execPath, ...execArgv, ...imports, program, JSON.stringify(settings)];
  const child = spawn(command[0]!, command.slice(1), {
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

/**
 * Returns true while the process is running. A process that has ended but not been waited for (a zombie) is
 * not running.
 */
export function isRunning({ child }: RankProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}
