import { StoreServer, type StoreServerOptions } from '@mtl/comm/launcher';
import { CommunicationError, MtlError, UsageError } from '@mtl/errors';
import type { HostReport, Verdict } from '../reports/judge-attempt.js';

/**
 * Decides whether the job continues, given the reports of all hosts and the host that reported a failure
 * first.
 */
export type Judge = (reports: readonly HostReport[], firstHost: number | undefined) => Verdict;

/** A failed process, as reported by its launcher. */
export interface RankFailure {
  readonly rank: number;
  readonly message: string;
}

/**
 * A launcher's connection to the hosts of a job. The hosts begin every attempt together, inform each other of
 * failures, and follow the decisions of host 0. The first attempt has the number 0.
 */
export interface JobHosts {
  /**
   * Begins an attempt. Host 0 passes the port of the attempt's store as `port`, and all hosts receive this
   * port as the result.
   */
  begin(attempt: number, port: number | undefined): Promise<number>;
  /** Reports to the other hosts that a process of this host has failed. */
  tellFailure(attempt: number, failure: RankFailure): void;
  /** Returns the first process that fails on any host. Rejects when the launcher of another host is lost. */
  failure(attempt: number): Promise<RankFailure>;
  /**
   * Sends this host's report to host 0. Host 0 calls `judge` with all reports, and all hosts receive the
   * decision.
   */
  settle(attempt: number, report: HostReport, judge: Judge): Promise<Verdict>;
  /** Leaves the job. */
  close(): Promise<void>;
}

/** The hosts of a job that runs on a single host. The launcher of this host decides alone. */
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
 * @throws CommunicationError MTL_STORE_ADDRESS, which names the flag
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
