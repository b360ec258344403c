import type { HostReport } from '../reports/host-report.js';
import type { Verdict } from '../reports/verdict.js';

/** Decides what comes next from the reports of all hosts, and the host that told of a failure first. */
export type Judge = (reports: readonly HostReport[], firstHost: number | undefined) => Verdict;

/** A process that has failed, as its launcher saw it. */
export interface RankFailure {
  readonly rank: number;
  readonly message: string;
}

/**
 * The hosts of a job as the launcher of one of them sees them: they begin every attempt together, tell each
 * other of failures, and do what host 0 decides. Attempts count from 0.
 */
export interface JobHosts {
  /** Begins an attempt: gives the port of its store, which host 0 knows, on all hosts. */
  begin(attempt: number, port: number | undefined): Promise<number>;
  /** Says that a process of this host has failed. */
  tellFailure(attempt: number, failure: RankFailure): void;
  /** The first process of any host that has failed; rejects when the launcher of another host is lost. */
  failure(attempt: number): Promise<RankFailure>;
  /** Gives the report of this host for the decision of host 0, where `judge` makes it. */
  settle(attempt: number, report: HostReport, judge: Judge): Promise<Verdict>;
  /** Leaves the others. */
  close(): Promise<void>;
}
