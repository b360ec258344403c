import { UsageError } from '@mtl/errors';
import type { HostReport } from '../reports/host-report.js';
import type { Verdict } from '../reports/verdict.js';
import type { JobHosts, Judge, RankFailure } from './job-hosts.js';

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
