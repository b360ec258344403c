import type { RunOutcome } from '@mtl/trainer';
import type { MetricsRow, MetricsRows } from './metrics-rows.js';
import { ServiceError } from './request-json.js';
import type { TrackedRun, TrackingService } from './tracking-settings.js';

/** The state of a delivery, which is stored in the run folder. */
export interface DeliveryState {
  /** The number of rows in metrics.jsonl that the service has received. */
  rows: number;
  /** True if the service has been informed how the run ended. */
  isEnded: boolean;
}

/** The state of a service after a delivery. */
export interface DeliveryResult {
  readonly title: string;
  /** The number of rows that the service has received. */
  readonly sent: number;
  /** The number of rows that exist only in the run folder. */
  readonly kept: number;
  /** True if the service has been informed how the run ended. */
  readonly isEnded: boolean;
  /** The reason why rows were not sent, from the service's last answer. */
  readonly problem: string | undefined;
  readonly page: string | undefined;
}

/** Waits between requests, in milliseconds. */
export interface DeliveryTimes {
  /** The wait between checks for new rows. */
  readonly interval: number;
  /**
   * How long no new rows must arrive, in milliseconds, before the service is informed that the run continues.
   */
  readonly keepAlive: number;
  /**
   * The waiting time after the first failure, in milliseconds. It doubles with each further failure, up to
   * `lastRetry`.
   */
  readonly firstRetry: number;
  readonly lastRetry: number;
}

const deliveryTimes: DeliveryTimes = {
  interval: 5000,
  keepAlive: 30_000,
  firstRetry: 1000,
  lastRetry: 60_000,
};

interface DeliveryOptions {
  readonly service: TrackingService;
  readonly rows: MetricsRows;
  readonly run: TrackedRun;
  readonly state: DeliveryState;
  /** Called when the state has changed. */
  readonly save: () => void;
  /**
   * Called once if the service rejects the run, and each time the service becomes unavailable or available
   * again.
   */
  readonly onMessage: (text: string) => void;
  readonly times?: DeliveryTimes;
}

/**
 * Sends the rows of a run to a tracking service while the run writes them. Rows that the service does not
 * accept stay in metrics.jsonl, and memory contains only the rows of one request. Requests to an unavailable
 * service are repeated after 1, 2, 4 ... seconds, up to a minute.
 */
export class Delivery {
  readonly #options: DeliveryOptions;
  readonly #times: DeliveryTimes;
  #outcome: RunOutcome | undefined;
  #isGivenUp = false;
  #isOpen = false;
  #numFailures = 0;
  #problem: string | undefined;
  #batch: readonly MetricsRow[] = [];
  #sentAt = 0;
  #wake: () => void = () => {};

  constructor(options: DeliveryOptions) {
    this.#options = options;
    this.#times = options.times ?? deliveryTimes;
  }

  /** Delivers rows until the run has ended and all rows are sent, or until `giveUp` is called. */
  async run(): Promise<DeliveryResult> {
    const { rows, state, service } = this.#options;
    state.rows = await rows.skip(state.rows);
    while (!this.#isGivenUp && !state.isEnded) {
      const wait = await this.#turn();
      if (wait > 0 && !this.#isGivenUp && !state.isEnded) await this.#sleep(wait);
    }
    const kept = this.#batch.length + (await rows.skip(Number.POSITIVE_INFINITY));
    const problem = kept > 0 || !state.isEnded ? this.#problem : undefined;
    const { isEnded, rows: sent } = state;
    return { title: service.title, sent, kept, isEnded, problem, page: service.page };
  }

  /** Informs the delivery that the run has ended. The delivery then sends the remaining rows. */
  finish(outcome: RunOutcome): void {
    this.#outcome = outcome;
    this.#wake();
  }

  /** Stops sending. Rows that were not sent remain in the run folder. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.#wake();
  }

  /** Sends at most one request. Returns the time in milliseconds to wait before the next request. */
  async #turn(): Promise<number> {
    const isOver = this.#outcome !== undefined;
    try {
      const isMore = await this.#deliver();
      this.#hasWorked();
      if (isMore || isOver) return 0;
      // the run may have ended during the request
      return this.#outcome === undefined ? this.#times.interval : 0;
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      return this.#hasFailed(error);
    }
  }

  /** Sends the next rows. Returns true if more rows may be ready immediately. */
  async #deliver(): Promise<boolean> {
    const { service, rows, run, state, save } = this.#options;
    if (!this.#isOpen) {
      await service.open(run);
      this.#isOpen = true;
      this.#sentAt = Date.now();
      save();
    }
    // the outcome must be read before the rows, because rows may be added until the run ends
    const outcome = this.#outcome;
    if (this.#batch.length === 0)
      this.#batch = await rows.read({ limit: service.mostRows, isOver: outcome !== undefined });
    if (this.#batch.length > 0) {
      await service.send(this.#batch, state.rows);
      state.rows += this.#batch.length;
      const isFull = this.#batch.length === service.mostRows;
      this.#batch = [];
      this.#sentAt = Date.now();
      save();
      return isFull;
    }
    if (outcome !== undefined) {
      await service.end(outcome);
      state.isEnded = true;
      save();
    } else if (Date.now() - this.#sentAt >= this.#times.keepAlive) {
      await service.keepAlive();
      this.#sentAt = Date.now();
    }
    return false;
  }

  #hasWorked(): void {
    const { service, onMessage } = this.#options;
    if (this.#problem !== undefined) onMessage(`${service.title} is back: sending what was kept`);
    this.#problem = undefined;
    this.#numFailures = 0;
  }

  #hasFailed(error: ServiceError): number {
    const { service, onMessage } = this.#options;
    const { firstRetry, lastRetry } = this.#times;
    const isNew = this.#problem === undefined;
    this.#problem = error.message;
    if (!error.isPassing) {
      this.#isGivenUp = true;
      onMessage(
        `${service.title} refuses this run: ${error.message}; its metrics are kept in the run folder`,
      );
      return 0;
    }
    if (isNew)
      onMessage(`${service.title} cannot be reached: ${error.message}; metrics are kept and sent later`);
    const backoff = Math.min(lastRetry, firstRetry * 2 ** this.#numFailures);
    this.#numFailures += 1;
    // the random factor prevents all runs of a cluster from trying again at the same time
    const wait = backoff * (0.75 + 0.5 * Math.random());
    return Math.max(wait, Math.min(error.answer.retryAfterMs ?? 0, lastRetry));
  }

  async #sleep(milliseconds: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = () => {};
  }
}

/** Returns a line that describes the state of a service. `directory` is the run folder. */
export function deliveryText(result: DeliveryResult, directory: string): string {
  const { sent, kept, isEnded, problem, page } = result;
  const where = page === undefined ? '' : `; ${page}`;
  const why = problem === undefined ? '' : ` (${problem})`;
  const all = `${sent.toLocaleString('en-US')} steps sent`;
  if (kept === 0 && isEnded) return `${all}${why}${where}`;
  const counts =
    kept === 0 ? `${all}, not that the run ended` : `${all}, ${kept.toLocaleString('en-US')} kept`;
  return `${counts}${why}: mtl runs send ${directory}${where}`;
}
