import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { FinalError, LinePrefixer } from '../reports/rank-output.js';
import type { LaunchOptions } from './launch-options.js';
import { listLoaders } from './resolve-program.js';

/** How a rank ended, and its last output. */
export interface RankExit {
  readonly rank: number;
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  /**
   * The first line of the rank's last coded error. Without a coded error, it is the rank's last line on
   * standard error, which may be empty.
   */
  readonly lastMessage: string;
  /** The coded error that ended the rank, if it has not been printed yet; otherwise empty. */
  readonly error: string;
  /** True if this launcher sent a signal to the rank. */
  readonly wasSignalled: boolean;
}

export interface RankProcessOptions {
  readonly launch: LaunchOptions;
  readonly localRank: number;
  /** The port of the attempt's store. */
  readonly port: number;
  readonly restartCount: number;
  /**
   * True if standard output goes directly to the terminal, without prefixes, so that a progress line can be
   * rewritten.
   */
  readonly inheritsOutput: boolean;
}

/**
 * How long to wait for output after a process has ended, in milliseconds. A child of the process may still
 * hold the pipe open.
 */
const outputLimitMs = 1_000;

/**
 * A process of a job. It has its own process group, so that Ctrl-C in a terminal reaches the process only
 * through the launcher.
 */
export class RankProcess {
  readonly rank: number;
  readonly ended: Promise<RankExit>;
  readonly #child: ChildProcess;
  #isForwarding = true;
  #wasSignalled = false;
  readonly #lastWords: FinalError;

  constructor(options: RankProcessOptions) {
    const { launch, localRank, inheritsOutput } = options;
    this.rank = launch.nodeRank * launch.numProcessesPerNode + localRank;
    // this preload ends the program when the launcher ends, even if the launcher is killed
    const preloads = [import.meta.resolve('@mtl/comm/launched'), ...listLoaders(launch.script)];
    const nodeOptions = preloads.flatMap((module) => ['--import', module]);
    this.#child = spawn(
      process.execPath,
      [...process.execArgv, ...nodeOptions, launch.script, ...launch.args],
      {
        env: { ...process.env, ...makeVariables(this.rank, options) },
        stdio: ['ignore', inheritsOutput ? 'inherit' : 'pipe', 'pipe'],
        detached: true,
      },
    );
    const { stdout, stderr } = this.#child;
    const prefix = `[${this.rank}] `;
    if (stdout !== null) {
      const lines = new LinePrefixer(prefix);
      const show = this.#showing(stdout, process.stdout);
      stdout.on('data', (chunk: Buffer) => show(lines.push(chunk))).on('end', () => show(lines.end()));
    }
    const show = this.#showing(stderr!, process.stderr);
    this.#lastWords = new FinalError((lines) => show(new LinePrefixer(prefix).push(lines)));
    stderr!.on('data', (chunk: Buffer) => this.#lastWords.push(chunk)).on('end', () => this.#lastWords.end());
    this.ended = this.#waitForEnd();
  }

  /** Sends a signal to the process, but not to its children. */
  signal(signal: NodeJS.Signals): void {
    if (!this.#isRunning()) return;
    this.#wasSignalled = true;
    this.#child.kill(signal);
  }

  /**
   * Returns true if a signal such as SIGSTOP, or a debugger, has stopped the process. A stopped process does
   * nothing until it receives a signal to continue.
   */
  isStopped(): boolean {
    try {
      const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8');
      return /^State:\s*[Tt]/m.test(status);
    } catch {
      return false; // it has ended
    }
  }

  /** Kills the process and its children, even if the process is stopped. */
  kill(): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    if (this.#isRunning()) this.#wasSignalled = true;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch (error) {
      // the process group has ended already
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  /** Discards the process's further output. */
  dropOutput(): void {
    this.#isForwarding = false;
    for (const source of [this.#child.stdout, this.#child.stderr]) source?.resume();
  }

  #isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  #waitForEnd(): Promise<RankExit> {
    const child = this.#child;
    return new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('exit', (status, signal) => {
        const wasSignalled = this.#wasSignalled;
        const finish = (): void => {
          clearTimeout(limit);
          const { lastMessage, error } = this.#lastWords;
          resolve({ rank: this.rank, status, signal, lastMessage, error, wasSignalled });
        };
        const limit = setTimeout(finish, outputLimitMs);
        child.on('close', finish);
      });
    });
  }

  #showing(source: Readable, target: Writable): (lines: Buffer) => void {
    return (lines) => {
      if (lines.length === 0 || !this.#isForwarding || target.write(lines)) return;
      // slows the process down if the launcher's output is read slowly, so that buffered output does not fill
      // the memory
      source.pause();
      target.once('drain', () => source.resume());
    };
  }
}

/**
 * Returns the environment variables of a rank: torchrun's variables, the secret, and the number of threads
 * (the process's share of the host's cores).
 */
function makeVariables(
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
    MTL_JOB_ID: launch.jobId,
    MTL_JOB_STARTED_MS: String(launch.startedMs),
    MTL_JOIN_TIMEOUT: String(launch.joinTimeoutMs / 1000),
  };
}

/**
 * How long ranks have to detect and report the failure of another rank, in milliseconds. Ranks on one host
 * need at most a second.
 */
const ownWordsMs = 1_000;

/**
 * Ends the ranks of this host after a failure. The ranks first have time to end, then get SIGTERM, then
 * SIGKILL.
 */
export class RankShutdown {
  readonly #ranks: () => readonly RankProcess[];
  readonly #gracePeriodMs: number;
  #timer: NodeJS.Timeout | undefined;
  #hasBegun = false;

  constructor(ranks: () => readonly RankProcess[], gracePeriodMs: number) {
    this.#ranks = ranks;
    this.#gracePeriodMs = gracePeriodMs;
  }

  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** Begins to end the ranks; later calls have no effect. */
  begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.#timer = setTimeout(() => this.#terminate(), ownWordsMs);
  }

  /** Cancels the timers, because all ranks have ended. */
  isOver(): void {
    this.#hasBegun = true;
    clearTimeout(this.#timer);
  }

  #terminate(): void {
    for (const rank of this.#ranks()) {
      // killed immediately, because a stopped process would never handle SIGTERM
      if (rank.isStopped()) rank.kill();
      else rank.signal('SIGTERM');
    }
    this.#timer = setTimeout(() => {
      for (const rank of this.#ranks()) rank.kill();
    }, this.#gracePeriodMs);
  }
}
