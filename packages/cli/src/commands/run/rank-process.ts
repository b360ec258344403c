import { type ChildProcess, spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import type { LaunchOptions } from './launch-options.js';
import { LinePrefixer } from './line-prefixer.js';

/** How a rank ended. */
export interface RankEnd {
  readonly rank: number;
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Its last coded error, else its last line on standard error; empty when it wrote nothing. */
  readonly lastMessage: string;
  /** This launcher had sent it a signal. */
  readonly wasSignalled: boolean;
}

export interface RankProcessOptions {
  readonly launch: LaunchOptions;
  readonly localRank: number;
  /** Where the store listens. */
  readonly port: number;
  readonly restartCount: number;
  /** Standard output goes to the terminal itself: progress that rewrites its line, without a prefix. */
  readonly inheritsOutput: boolean;
}

/** How long output may still come after a process has ended: from a child of its own that holds the pipe. */
const outputLimitMs = 1_000;

/**
 * One process of a job, in a process group of its own so that a terminal's Ctrl-C reaches it only through the
 * launcher.
 */
export class RankProcess {
  readonly rank: number;
  readonly ended: Promise<RankEnd>;
  readonly #child: ChildProcess;
  #isForwarding = true;
  #wasSignalled = false;
  #lastError = '';
  #lastLine = '';

  constructor(options: RankProcessOptions) {
    const { launch, localRank, inheritsOutput } = options;
    this.rank = launch.nodeRank * launch.numProcessesPerNode + localRank;
    // the program ends with this launcher, even when that is killed
    const preload = ['--import', import.meta.resolve('@mtl/comm/launched')];
    this.#child = spawn(process.execPath, [...process.execArgv, ...preload, launch.script, ...launch.args], {
      env: { ...process.env, ...variablesOf(this.rank, options) },
      stdio: ['ignore', inheritsOutput ? 'inherit' : 'pipe', 'pipe'],
      detached: true,
    });
    this.#forward(this.#child.stdout, process.stdout);
    this.#child.stderr?.on('data', (chunk: Buffer) => this.#remember(chunk));
    this.#forward(this.#child.stderr, process.stderr);
    this.ended = this.#waitForEnd();
  }

  /** To the process alone. */
  signal(signal: NodeJS.Signals): void {
    if (!this.#isRunning()) return;
    this.#wasSignalled = true;
    this.#child.kill(signal);
  }

  /** At once, with all that it started; a stopped process too. */
  kill(): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    if (this.#isRunning()) this.#wasSignalled = true;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch (error) {
      // the group is gone already
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  /** Reads on, and shows no more of it. */
  dropOutput(): void {
    this.#isForwarding = false;
    for (const source of [this.#child.stdout, this.#child.stderr]) source?.resume();
  }

  #isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  #waitForEnd(): Promise<RankEnd> {
    const child = this.#child;
    return new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('exit', (status, signal) => {
        const wasSignalled = this.#wasSignalled;
        const finish = (): void => {
          clearTimeout(limit);
          const lastMessage = this.#lastError || this.#lastLine;
          resolve({ rank: this.rank, status, signal, lastMessage, wasSignalled });
        };
        const limit = setTimeout(finish, outputLimitMs);
        child.on('close', finish);
      });
    });
  }

  #forward(source: Readable | null, target: Writable): void {
    if (source === null) return;
    const prefixer = new LinePrefixer(`[${this.rank}] `);
    const write = (lines: Buffer): void => {
      if (lines.length === 0 || !this.#isForwarding || target.write(lines)) return;
      // a slow reader of the launcher slows the process, instead of filling the memory
      source.pause();
      target.once('drain', () => source.resume());
    };
    source.on('data', (chunk: Buffer) => write(prefixer.push(chunk)));
    source.on('end', () => write(prefixer.end()));
  }

  readonly #errors = new LinePrefixer('');
  #remember(chunk: Buffer): void {
    for (const line of this.#errors.push(chunk).toString('utf8').split('\n')) {
      if (line.startsWith('error[')) this.#lastError = line;
      if (line.trim() !== '') this.#lastLine = line;
    }
  }
}

/** torchrun's variables, the secret, and the threads that are this process's share of the host. */
function variablesOf(
  rank: number,
  { launch, localRank, port, restartCount }: RankProcessOptions,
): Readonly<Record<string, string>> {
  const { numProcessesPerNode, numNodes, nodeRank, masterAddress, secret } = launch;
  const share = Math.max(1, Math.floor(availableParallelism() / numProcessesPerNode));
  return {
    RANK: String(rank),
    WORLD_SIZE: String(numNodes * numProcessesPerNode),
    LOCAL_RANK: String(localRank),
    LOCAL_WORLD_SIZE: String(numProcessesPerNode),
    GROUP_RANK: String(nodeRank),
    GROUP_WORLD_SIZE: String(numNodes),
    MASTER_ADDR: masterAddress,
    MASTER_PORT: String(port),
    OMP_NUM_THREADS: process.env.OMP_NUM_THREADS ?? process.env.MTL_THREADS ?? String(share),
    MTL_JOB_SECRET: secret,
    MTL_LAUNCHER: 'mtl',
    MTL_LAUNCHER_PID: String(process.pid),
    MTL_RESTART_COUNT: String(restartCount),
    MTL_JOB_STARTED_MS: String(launch.startedMs),
    MTL_JOIN_TIMEOUT: String(launch.joinTimeoutMs / 1000),
  };
}
