import { StoreServer, type StoreServerOptions } from '@mtl/comm/internal';
import { CommunicationError, MtlError, UsageError } from '@mtl/errors';
import type { HostReport, Verdict } from '../reports/judge-attempt.js';

/** Decides the next step from the reports of all hosts and the host that reported a failure first. */
export type Judge = (reports: readonly HostReport[], firstHost: number | undefined) => Verdict;

/** A process that has failed, as its launcher saw it. */
export interface RankFailure {
  readonly rank: number;
  readonly message: string;
}

/**
 * One launcher's view of the hosts of a job. The hosts begin every attempt together, inform each other of
 * failures, and follow the decisions of host 0. Attempts count from 0.
 */
export interface JobHosts {
  /** Begins an attempt. Returns, on all hosts, the port of its store, which only host 0 passes as `port`. */
  begin(attempt: number, port: number | undefined): Promise<number>;
  /** Reports that a process of this host has failed. */
  tellFailure(attempt: number, failure: RankFailure): void;
  /**
   * Returns the first process of any host that fails; rejects when the launcher of another host is lost.
   */
  failure(attempt: number): Promise<RankFailure>;
  /** Sends the report of this host to host 0, where `judge` makes the decision; returns the decision. */
  settle(attempt: number, report: HostReport, judge: Judge): Promise<Verdict>;
  /** Leaves the job. */
  close(): Promise<void>;
}

/** A job on one host: there is no other launcher to agree with. */
export class SingleHost implements JobHosts {
  #tell: (failure: RankFailure) => void = () => {};

  async begin(_attempt: number, port: number | undefined): Promise<number> {
    if (port === undefined) throw new UsageError('MTL_LAUNCH', 'a job on one host without a store');
    return port;
  }

  tellFailure(_attempt: number, failure: RankFailure): void {
    this.#tell(failure);
  }

  failure(): Promise<RankFailure> {
    return new Promise((resolve) => {
      this.#tell = resolve;
    });
  }

  async settle(_attempt: number, report: HostReport, judge: Judge): Promise<Verdict> {
    return judge([report], 0);
  }

  async close(): Promise<void> {}
}

/**
 * Opens a store on the port of --master-port.
 * @throws CommunicationError MTL_STORE_ADDRESS that names the flag
 */
export function serveStore(
  options: StoreServerOptions,
  { numNodes }: { readonly numNodes: number },
): StoreServer {
  try {
    return new StoreServer(options);
  } catch (cause) {
    if (!MtlError.isInstance(cause) || cause.code !== 'MTL_STORE_ADDRESS') throw cause;
    throw new CommunicationError(cause.code, cause.message, {
      expected: 'an address of this host and a port that no other program has',
      remedy:
        numNodes === 1
          ? 'leave --master-port out: any free port is taken'
          : 'pass another --master-port, the same on all hosts; another job of yours may still have this one',
      exitCode: 2,
      details: cause.details,
      cause,
    });
  }
}
