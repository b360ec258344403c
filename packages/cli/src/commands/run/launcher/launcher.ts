import { randomBytes, randomUUID } from 'node:crypto';
import { readJoinTimeout, type StoreServer } from '@mtl/comm/launcher';
import { CommunicationError, MtlError } from '@mtl/errors';
import { ConnectedHosts } from '../hosts/connected-hosts.js';
import { type JobHosts, type RankFailure, SingleHost, serveStore } from '../hosts/job-hosts.js';
import {
  formatRankExit,
  type HostReport,
  jobFailure,
  judgeAttempt,
  type Verdict,
} from '../reports/judge-attempt.js';
import { RankErrors } from '../reports/rank-errors.js';
import type { LaunchOptions } from './launch-options.js';
import { RankProcess, RankShutdown } from './rank-process.js';

const streams = [process.stdout, process.stderr];
/** Milliseconds between two checks for ranks without heartbeats. */
const silenceCheckMs = 100;
const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/**
 * Starts and watches the ranks of this host. When a rank of any host fails, the launchers of all hosts
 * restart their ranks.
 */
export class Launcher {
  readonly #options: LaunchOptions;
  #ranks: readonly RankProcess[] = [];
  #numSignals = 0;
  #hasReader = true;
  /** Interrupts the launcher while it waits for other hosts, before the ranks have started. */
  readonly #interruption = new AbortController();

  constructor(options: LaunchOptions) {
    this.#options = options;
  }

  /**
   * Runs the job until the program ends.
   *
   * @throws CommunicationError MTL_RANK_FAILED with the first failure, if no restart remains or would help;
   *   ConfigurationError with the code that ranks reported for wrong input; MTL_HOST_LOST if another host is
   *   lost; MTL_TIMEOUT if a host did not join
   */
  async run(): Promise<void> {
    const forward = (signal: NodeJS.Signals): void => this.#onSignal(signal);
    for (const signal of signals) process.on(signal, forward);
    for (const stream of streams) stream.setMaxListeners(0).on('error', this.#onLostOutput);
    try {
      const isAlone = this.#options.numNodes === 1;
      const hosts = isAlone
        ? new SingleHost()
        : await ConnectedHosts.join(this.#options, this.#interruption.signal);
      try {
        await this.#runAttempts(hosts);
      } finally {
        await hosts.close();
      }
    } finally {
      for (const signal of signals) process.off(signal, forward);
      for (const stream of streams) stream.off('error', this.#onLostOutput);
    }
  }

  async #runAttempts(hosts: JobHosts): Promise<void> {
    const { maxRestarts } = this.#options;
    for (let attempt = 0; ; attempt++) {
      const verdict = await this.#runAttempt(hosts, attempt);
      const { next, message } = verdict;
      if (next === 'end') return;
      if (next === 'fail') throw jobFailure(verdict, attempt, this.#options.args);
      const count = `restart ${attempt + 1} of ${maxRestarts}`;
      process.stderr.write(`warning[MTL_RESTART]: ${message}; ${count} of all ranks\n`);
    }
  }

  async #runAttempt(hosts: JobHosts, attempt: number): Promise<Verdict> {
    const { numProcessesPerNode, nodeRank, maxRestarts } = this.#options;
    // each attempt has a new store, without data of the previous attempt
    const server = nodeRank === 0 ? this.#serveStore(attempt) : undefined;
    try {
      const port = await hosts.begin(attempt, server?.port);
      const showsProgress = process.stdout.isTTY === true && nodeRank === 0;
      this.#ranks = Array.from(
        { length: numProcessesPerNode },
        (_, localRank) =>
          new RankProcess({
            launch: this.#options,
            localRank,
            restartCount: attempt,
            port,
            inheritsOutput: showsProgress && localRank === 0,
          }),
      );
      // a signal may have arrived before the ranks were started
      if (this.#numSignals > 0) for (const rank of this.#ranks) rank.kill();
      const errors = new RankErrors((lines) => void (this.#hasReader && process.stderr.write(lines)));
      const report = await this.#watch(hosts, { attempt, server, errors });
      const verdict = await hosts.settle(attempt, report, (reports, firstHost) =>
        judgeAttempt({ reports, firstHost, reported: server?.failure, attempt, maxRestarts }),
      );
      errors.settle(verdict);
      return verdict;
    } catch (error) {
      throw hosts instanceof ConnectedHosts ? lostHost(error) : error;
    } finally {
      for (const rank of this.#ranks) rank.kill();
      server?.close();
    }
  }

  /**
   * Opens the store of an attempt. On several hosts it uses any free port, because the launchers' store
   * already has the port of --master-port.
   */
  #serveStore(attempt: number): StoreServer {
    const { numNodes, numProcessesPerNode, masterAddress, masterPort, secret, heartbeatLimitMs } =
      this.#options;
    const ports = [numNodes === 1 ? masterPort : 0];
    const worldSize = numNodes * numProcessesPerNode;
    const store = { address: masterAddress, secret, attempt, heartbeatLimitMs, ports, worldSize };
    return serveStore(store, { numNodes });
  }

  /**
   * Waits until all ranks have ended. After the first failure on any host, the ranks have some time to end on
   * their own, and are then killed.
   */
  async #watch(
    hosts: JobHosts,
    {
      attempt,
      server,
      errors,
    }: {
      readonly attempt: number;
      readonly server: StoreServer | undefined;
      readonly errors: RankErrors;
    },
  ): Promise<HostReport> {
    let firstToFail: number | undefined;
    let lost: unknown;
    const ending = new RankShutdown(() => this.#ranks, this.#options.gracePeriodMs);
    const isOurs = (rank: number): boolean => this.#ranks.some((each) => each.rank === rank);
    const silence = setInterval(() => {
      const failure = silentRank(server);
      if (failure === undefined) return;
      clearInterval(silence);
      hosts.tellFailure(attempt, failure);
    }, silenceCheckMs);
    hosts.failure(attempt).then(
      (failure) => {
        // a silent rank counts as failed, although its process has not ended and may never end
        if (isOurs(failure.rank)) firstToFail ??= failure.rank;
        // if a rank did not join, the ranks that wait for this rank end with an error that names the missing
        // rank
        server?.abort(failure);
        ending.begin();
      },
      (error: unknown) => {
        lost = error;
        ending.begin();
      },
    );
    const ends = await Promise.all(
      this.#ranks.map(async ({ ended }) => {
        const end = await ended;
        errors.push(end);
        if (end.status === 0 || ending.hasBegun) return end;
        firstToFail ??= end.rank;
        hosts.tellFailure(attempt, { rank: end.rank, message: formatRankExit(end) });
        ending.begin();
        return end;
      }),
    );
    clearInterval(silence);
    ending.isOver();
    if (lost !== undefined) throw lost;
    return { firstToFail, ends, wasSignalled: this.#numSignals > 0 };
  }

  /**
   * Ends the job when output can no longer be written, because the terminal is closed, the reader has ended
   * (`| head`) or the disk is full. The job ends as it does after SIGHUP, and later output of ranks is
   * dropped.
   */
  readonly #onLostOutput = (error: NodeJS.ErrnoException): void => {
    if (error.code !== 'EIO' && error.code !== 'EPIPE') process.exitCode = 1;
    this.#hasReader = false;
    for (const rank of this.#ranks) rank.dropOutput();
    this.#onSignal('SIGHUP');
  };

  #onSignal(signal: NodeJS.Signals): void {
    // closing a terminal sends SIGHUP several times
    if (signal === 'SIGHUP' && this.#numSignals > 0) return;
    this.#numSignals += 1;
    const why = `${signal} while waiting for the other hosts`;
    this.#interruption.abort(new CommunicationError('MTL_INTERRUPTED', why));
    for (const rank of this.#ranks) {
      if (this.#numSignals === 1) rank.signal(signal);
      else rank.kill();
    }
  }
}

/**
 * Returns the rank from which the store has received no heartbeat for too long. The heartbeats are needed for
 * a stopped process (SIGSTOP), which does not end, so that the ranks that wait for it do not end either.
 * After any other failure, the rank's process ends, and the launcher notices the end.
 */
function silentRank(server: StoreServer | undefined): RankFailure | undefined {
  const failure = server?.failure;
  if (failure?.code !== 'MTL_HEARTBEAT') return undefined;
  return { rank: failure.details.rank as number, message: failure.message };
}

/**
 * Returns the error for a job that lost a host. No launcher runs on the lost host any more, so its ranks
 * cannot be restarted.
 */
function lostHost(error: unknown): unknown {
  if (!MtlError.isInstance(error) || ['MTL_CLOSED', 'MTL_STORE_AUTHENTICATION'].includes(error.code))
    return error;
  return new CommunicationError('MTL_HOST_LOST', error.message, {
    remedy:
      'see the output of mtl run there; start it again on all hosts, and the program goes on from its checkpoint',
    details: { host: error.details.rank },
    cause: error,
  });
}

export interface LaunchOnThisHostOptions {
  readonly numProcesses: number;
  /** The path of the script, see `resolveProgram`. */
  readonly script: string;
  readonly args: readonly string[];
}

/**
 * Runs a program as several ranks on this host, until the program ends.
 *
 * @throws the errors of `Launcher.run`
 */
export async function launchOnThisHost({
  numProcesses,
  script,
  args,
}: LaunchOnThisHostOptions): Promise<void> {
  await new Launcher({
    numProcessesPerNode: numProcesses,
    numNodes: 1,
    nodeRank: 0,
    masterAddress: '127.0.0.1',
    masterPort: 0,
    maxRestarts: 0,
    heartbeatLimitMs: 15_000,
    joinTimeoutMs: readJoinTimeout(process.env),
    gracePeriodMs: 10_000,
    secret: randomBytes(32).toString('hex'),
    jobId: randomUUID(),
    startedMs: Date.now(),
    script,
    args,
  }).run();
}
