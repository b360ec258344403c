import { StoreServer } from '@mtl/comm';
import { CommunicationError, type MtlError } from '@mtl/errors';
import type { LaunchOptions } from './launch-options.js';
import { type RankEnd, RankProcess } from './rank-process.js';

const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** How an attempt failed: the rank that did it, and how it ended. */
interface Failure {
  readonly end: RankEnd;
  readonly message: string;
}

/** Starts the ranks of this host, watches them, and starts all of them again when one fails. */
export class Launcher {
  readonly #options: LaunchOptions;
  #ranks: readonly RankProcess[] = [];
  #numSignals = 0;

  constructor(options: LaunchOptions) {
    this.#options = options;
  }

  /**
   * Runs to the end of the program.
   *
   * @throws CommunicationError MTL_RANK_FAILED with the first failure, when no restart is left or none would help
   */
  async run(): Promise<void> {
    const forward = (signal: NodeJS.Signals): void => this.#onSignal(signal);
    for (const signal of signals) process.on(signal, forward);
    process.stdout.setMaxListeners(0);
    process.stderr.setMaxListeners(0);
    try {
      await this.#runAttempts();
    } finally {
      for (const rank of this.#ranks) rank.kill();
      for (const signal of signals) process.off(signal, forward);
    }
  }

  async #runAttempts(): Promise<void> {
    const { maxRestarts } = this.#options;
    for (let restartCount = 0; ; restartCount++) {
      const failure = await this.#runAttempt(restartCount);
      if (failure === undefined) return;
      // wrong input stays wrong, and who sent a signal wants an end
      const isFinal = failure.end.status === 2 || this.#numSignals > 0;
      if (isFinal || restartCount === maxRestarts) {
        const afterRestarts = restartCount === 0 ? '' : ` (after ${restartCount} restarts)`;
        throw new CommunicationError('MTL_RANK_FAILED', `${failure.message}${afterRestarts}`, {
          exitCode: failure.end.status === 2 ? 2 : 1,
          details: { rank: failure.end.rank, status: failure.end.status, signal: failure.end.signal },
        });
      }
      const count = `restart ${restartCount + 1} of ${maxRestarts}`;
      process.stderr.write(`warning[MTL_RESTART]: ${failure.message}; ${count} of all ranks\n`);
    }
  }

  async #runAttempt(restartCount: number): Promise<Failure | undefined> {
    const { numProcessesPerNode, nodeRank, numNodes, masterPort, gracePeriodMs } = this.#options;
    // a fresh one for every attempt: nothing of the last one is left in it
    const server = nodeRank === 0 ? this.#serveStore(restartCount) : undefined;
    try {
      const showsProgress = process.stdout.isTTY === true && nodeRank === 0;
      this.#ranks = Array.from(
        { length: numProcessesPerNode },
        (_, localRank) =>
          new RankProcess({
            ...{ launch: this.#options, localRank, restartCount },
            port: server?.port ?? masterPort,
            inheritsOutput: showsProgress && localRank === 0 && numNodes > 0,
          }),
      );
      return await this.#watch(server, gracePeriodMs);
    } finally {
      for (const rank of this.#ranks) rank.kill();
      server?.close();
    }
  }

  #serveStore(attempt: number): StoreServer {
    const { numNodes, numProcessesPerNode, masterAddress, masterPort, secret, heartbeatLimitMs } =
      this.#options;
    return new StoreServer({
      ...{ address: masterAddress, ports: [masterPort], secret, attempt, heartbeatLimitMs },
      worldSize: numNodes * numProcessesPerNode,
    });
  }

  /** Waits for all ranks; after the first failure the others get SIGTERM, and SIGKILL when their grace is over. */
  async #watch(server: StoreServer | undefined, gracePeriodMs: number): Promise<Failure | undefined> {
    let first: RankEnd | undefined;
    let limit: NodeJS.Timeout | undefined;
    const ends = await Promise.all(
      this.#ranks.map(async ({ ended }) => {
        const end = await ended;
        if (first !== undefined || end.status === 0) return end;
        first = end;
        for (const rank of this.#ranks) rank.signal('SIGTERM');
        limit = setTimeout(() => {
          for (const rank of this.#ranks) rank.kill();
        }, gracePeriodMs);
        return end;
      }),
    );
    clearTimeout(limit);
    return first === undefined ? undefined : failureOf({ first, ends, reported: server?.failure });
  }

  #onSignal(signal: NodeJS.Signals): void {
    this.#numSignals += 1;
    for (const rank of this.#ranks) {
      if (this.#numSignals === 1) rank.signal(signal);
      else rank.kill();
    }
  }
}

/** Who failed first: the rank that the others name, where they do; its own words, where it had any. */
function failureOf({
  first,
  ends,
  reported,
}: {
  first: RankEnd;
  ends: readonly RankEnd[];
  reported: MtlError | undefined;
}): Failure {
  const end = ends.find(({ rank }) => rank === reported?.details.rank) ?? first;
  const how = end.signal === null ? `exit code ${end.status}` : `signal ${end.signal}`;
  const names = reported?.details.rank === end.rank;
  // ended by us, or as if all were well: what the others saw says more
  const sawMore = names && (end.status === 0 || (end !== first && end.signal !== null));
  if (sawMore) return { end, message: `rank ${end.rank} failed: ${reported.message}` };
  const words = end.lastMessage === '' ? '' : `: ${end.lastMessage}`;
  return { end, message: `rank ${end.rank} ended with ${how}${words}` };
}
