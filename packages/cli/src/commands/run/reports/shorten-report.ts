import type { HostReport } from './host-report.js';
import { wrongInputStatus } from './wrong-input-status.js';

/** Of the last error of a rank. */
const maximumMessageLength = 400;
/** Of the wrong input of all ranks of a host together, and what each may have whatever their number. */
const maximumErrorsLength = 100_000;
const leastErrorLength = 500;

/** A report that stays within a value of the store, on a host with very many ranks too. */
export function shortenReport(report: HostReport): HostReport {
  const maximumErrorLength = Math.max(leastErrorLength, maximumErrorsLength / report.ends.length);
  const ends = report.ends.map((end) => ({
    ...end,
    lastMessage: end.status === 0 ? '' : end.lastMessage.slice(0, maximumMessageLength),
    // whole, or not at all
    error: end.status === wrongInputStatus && end.error.length <= maximumErrorLength ? end.error : '',
  }));
  return { ...report, ends };
}
