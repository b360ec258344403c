import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { MetricsSink, RunOutcome, SummaryRow } from '@mtl/trainer';
import { type BeginTrackingOptions, beginTracking } from './begin-tracking.js';
import type { DeliveryResult, DeliveryState, DeliveryTimes } from './delivery.js';
import { deliveryText } from './delivery-text.js';
import { MetricsRows } from './metrics-rows.js';
import type { TrackingCredentials } from './tracking-credentials.js';
import type { TrackedRun } from './tracking-settings.js';
import { readTrackingState, type TrackingState } from './tracking-state.js';
import type { TrackingReply, TrackingRequest, TrackingWorkerData } from './tracking-worker.js';

export interface OpenTrackingOptions extends BeginTrackingOptions {
  /** Whether nothing is sent to wandb now: what is kept can be sent later. */
  readonly isWandbOffline: boolean;
  readonly credentials: TrackingCredentials;
  readonly run: TrackedRun;
  /** Of services that go away, refuse, and are back. */
  readonly onMessage: (text: string) => void;
  /** Waits between requests. Default: `deliveryTimes`. */
  readonly times?: DeliveryTimes;
}

/** How long the end of a run waits for services; what they have not taken by then is kept. */
const mostWaitMs = 2000;
/** Of these, for the thread to tell what services have. */
const marginMs = 250;

/**
 * Sends the metrics of a run to tracking services, from a thread of its own that follows metrics.jsonl: a
 * step costs the training run nothing, and what a service does not take is still in the file, for the next
 * start of the run or for `sendKeptMetrics`.
 */
export class TrackingSink implements MetricsSink {
  readonly #options: OpenTrackingOptions;
  readonly #worker: Worker | undefined;
  readonly #results: Promise<readonly DeliveryResult[]>;
  #isEnded = false;

  private constructor(options: OpenTrackingOptions, worker: Worker | undefined) {
    this.#options = options;
    this.#worker = worker;
    this.#results = worker === undefined ? Promise.resolve([]) : this.#resultsOf(worker);
  }

  /**
   * Begins or goes on, and starts to send.
   *
   * @throws as `beginTracking`
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

  /** Sends what is left, as far as the services take it within two seconds; what they have then. */
  async close(outcome: RunOutcome): Promise<readonly SummaryRow[]> {
    if (this.#isEnded) return [];
    this.#isEnded = true;
    this.#worker?.ref();
    this.#worker?.postMessage({ outcome, graceMs: mostWaitMs - marginMs } satisfies TrackingRequest);
    const { directory, metricsPath } = this.#options;
    const sent = await within(mostWaitMs, this.#results);
    // connections, and a thread that hangs on a file system that does not answer, must not hold up the
    // process
    void this.#worker?.terminate();
    const kept = await keptResults(readTrackingState(directory) ?? {}, metricsPath);
    const problem = sent === undefined ? noAnswer : undefined;
    const all = kept.map(
      (result) => sent?.find(({ title }) => title === result.title) ?? { ...result, problem },
    );
    return all.map((result) => [result.title, deliveryText(result, directory)] as const);
  }

  async #resultsOf(worker: Worker): Promise<readonly DeliveryResult[]> {
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
      // also after an error
      worker.on('exit', () => resolve([]));
    });
  }
}

const noAnswer = `no answer within ${mostWaitMs / 1000} s of the end of the run`;

/** What a promise resolves to; undefined where that takes longer. */
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

/** What services have by the run folder alone. */
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
 * Starts the thread. Built, it is JavaScript in `services/` next to this code; inside the repository this
 * file is TypeScript, and so is the thread's, which then needs a loader.
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
