import type { RunOutcome } from '@mtl/trainer';
import type { MetricsRow } from './metrics-row.js';
import type { TrackedRun } from './tracking-settings.js';

/** A place elsewhere that rows of metrics are sent to. Every method may throw a `ServiceError`. */
export interface TrackingService {
  /** In messages. */
  readonly title: string;
  /** Rows of one `send` at most. */
  readonly mostRows: number;
  /** Where the run can be looked at, once it is known. */
  readonly page: string | undefined;
  /** Creates the run or goes on with it. */
  open(run: TrackedRun): Promise<void>;
  /** Sends rows, of which the first is row `first` of the run; the same rows may be sent again. */
  send(rows: readonly MetricsRow[], first: number): Promise<void>;
  /** Called from time to time while there is nothing to send. */
  keepAlive(): Promise<void>;
  end(outcome: RunOutcome): Promise<void>;
}
