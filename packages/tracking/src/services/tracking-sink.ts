import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { MetricsSink, RunOutcome, SummaryRow } from '@mtl/trainer';
import { type DeliveryResult, type DeliveryState, type DeliveryTimes, deliveryText } from './delivery.js';
import { MetricsRows } from './metrics-rows.js';
import type { TrackingCredentials } from './open-deliveries.js';
import type { TrackedRun, TrackingSettings } from './tracking-settings.js';
import {
  continuedState,
  readTrackingState,
  type TrackingState,
  writeTrackingState,
} from './tracking-state.js';
import type { TrackingReply, TrackingRequest, TrackingWorkerData } from './tracking-worker.js';

export interface OpenTrackingOptions extends BeginTrackingOptions {
  /** True if nothing is sent to wandb during the run. Its rows can be sent later. */
  readonly isWandbOffline: boolean;
  readonly credentials: TrackingCredentials;
  readonly run: TrackedRun;
  /** Called when a service becomes unavailable, rejects the run, or is available again. */
  readonly onMessage: (text: string) => void;
  /** Waits between requests. Default: `deliveryTimes`. */
  readonly times?: DeliveryTimes;
}

/**
 * How long the end of a run waits for services at most, in milliseconds. Rows that they have not accepted by
 * then stay in the run folder.
 */
const mostWaitMs = 2000;
/** The last part of `mostWaitMs`, in which the sending thread reports the state of the services. */
const marginMs = 250;

/**
 * Sends a run's metrics to tracking services from a separate thread, which reads metrics.jsonl while it
 * grows. Training steps are not slowed down. Rows that a service does not accept stay in the file, for the
 * next start of the run or for `sendKeptMetrics`.
 */
export class TrackingSink implements MetricsSink {
  readonly #options: OpenTrackingOptions;
  readonly #worker: Worker | undefined;
  readonly #results: Promise<readonly DeliveryResult[]>;
  #isEnded = false;

  private constructor(options: OpenTrackingOptions, worker: Worker | undefined) {
    this.#options = options;
    this.#worker = worker;
    this.#results = worker === undefined ? Promise.resolve([]) : this.#awaitResults(worker);
  }

  /**
   * Begins or continues the run at its services, and starts to send rows.
   *
   * @throws the errors of `beginTracking`
   */
  static async open(options: OpenTrackingOptions): Promise<TrackingSink> {
    const { directory, metricsPath, settings, isWandbOffline, credentials, run, times } = options;
    const state = await beginTracking({ directory, metricsPath, settings });
    const online: TrackingCredentials = isWandbOffline
      ? { ...credentials, wandbKey: undefined }
      : credentials;
    const isIdle = state.mlflow === undefined && (state.wandb === undefined || online.wandbKey === undefined);
    const data: TrackingWorkerData = { directory, metricsPath, state, run, credentials: online, times };
    return new TrackingSink(options, isIdle ? undefined : startWorker(data));
  }

  /**
   * Sends the remaining rows that the services accept within two seconds. Returns summary rows with the state
   * of the services.
   */
  async close(outcome: RunOutcome): Promise<readonly SummaryRow[]> {
    if (this.#isEnded) return [];
    this.#isEnded = true;
    this.#worker?.ref();
    this.#worker?.postMessage({ outcome, graceMs: mostWaitMs - marginMs } satisfies TrackingRequest);
    const { directory, metricsPath } = this.#options;
    const sent = await within(mostWaitMs, this.#results);
    // this promise is not awaited, because the process must not wait for connections, or for a thread that
    // hangs because a file system does not respond
    void this.#worker?.terminate();
    const kept = await keptResults(readTrackingState(directory) ?? {}, metricsPath);
    const problem = sent === undefined ? noAnswer : undefined;
    const all = kept.map(
      (result) => sent?.find(({ title }) => title === result.title) ?? { ...result, problem },
    );
    return all.map((result) => [result.title, deliveryText(result, directory)] as const);
  }

  async #awaitResults(worker: Worker): Promise<readonly DeliveryResult[]> {
    worker.unref();
    return await new Promise((resolve) => {
      worker.on('message', (reply: TrackingReply) => {
        if ('results' in reply) resolve(reply.results);
        else this.#options.onMessage(reply.message);
      });
      worker.on('error', (error) => {
        this.#options.onMessage(
          `metrics are no longer sent: ${error.message}; they are kept in the run folder`,
        );
      });
      // this event also follows an error
      worker.on('exit', () => resolve([]));
    });
  }
}

const noAnswer = `no answer within ${mostWaitMs / 1000} s of the end of the run`;

/** Returns the value of `promise`; undefined if it takes longer than `milliseconds`. */
async function within<Result>(milliseconds: number, promise: Promise<Result>): Promise<Result | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Returns the state of the services as recorded in the run folder, without asking the thread that sends rows.
 */
async function keptResults(
  { wandb, mlflow }: TrackingState,
  metricsPath: string,
): Promise<readonly DeliveryResult[]> {
  const total = await new MetricsRows(metricsPath).skip(Number.POSITIVE_INFINITY);
  const of = (title: string, { rows, isEnded }: DeliveryState): DeliveryResult => {
    const sent = Math.min(rows, total);
    return { title, sent, kept: total - sent, isEnded, problem: undefined, page: undefined };
  };
  return [...(wandb ? [of('wandb', wandb)] : []), ...(mlflow ? [of('MLflow', mlflow)] : [])];
}

/**
 * Starts the thread. In the published build, the thread's code is a JavaScript file in `services/` next to
 * this file. Inside the repository, both files are TypeScript, and the thread needs a loader.
 */
function startWorker(workerData: TrackingWorkerData): Worker {
  if (!import.meta.url.endsWith('.ts')) {
    return new Worker(new URL('./services/tracking-worker.js', import.meta.url), { workerData });
  }
  const loader = pathToFileURL(createRequire(import.meta.url).resolve('@mtl/tooling/typescript-loader')).href;
  const entry = new URL('./tracking-worker.ts', import.meta.url).href;
  const start = `import('${loader}').then(() => import('${entry}'))`;
  return new Worker(start, { eval: true, workerData, execArgv: ['--conditions', '@mtl/source'] });
}

interface BeginTrackingOptions {
  /** The run folder, which keeps rows that services do not accept. */
  readonly directory: string;
  /** The path of the run's metrics.jsonl, which another sink writes. */
  readonly metricsPath: string;
  readonly settings: TrackingSettings;
}

/**
 * Returns the tracking state for a run that starts or continues. If tracking.json in the run's folder names
 * the run of a service, that run is continued; otherwise a new run is begun. Before this call, a resumed run
 * must remove from metrics.jsonl the rows that it will write again.
 *
 * @throws ConfigurationError MTL_TRACKING_STATE; the error of a file that cannot be written
 */
export async function beginTracking(options: BeginTrackingOptions): Promise<TrackingState> {
  const { directory, metricsPath, settings } = options;
  const known = readTrackingState(directory);
  const state = continuedState(known, { settings, newId: () => randomBytes(4).toString('hex') });
  const total = await new MetricsRows(metricsPath).skip(Number.POSITIVE_INFINITY);
  for (const sent of [state.wandb, state.mlflow]) {
    // the file has lost rows that were already sent, so the rows that replace them must be sent again
    if (sent !== undefined) sent.rows = Math.min(sent.rows, total);
  }
  writeTrackingState(directory, state);
  return state;
}
