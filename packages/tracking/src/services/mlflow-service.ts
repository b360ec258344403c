import type { RunOutcome } from '@mtl/trainer';
import type { MetricsRow } from './metrics-rows.js';
import { requestJson, ServiceError } from './request-json.js';
import type { TrackedRun, TrackingService } from './tracking-settings.js';
import type { MlflowState } from './tracking-state.js';

/**
 * Limits of MLflow's REST interface: the number of metrics and of parameters in one request of
 * runs/log-batch, and the number of bytes in a parameter's value.
 */
const mostMetrics = 1000;
const mostParameters = 100;
const mostValueBytes = 6000;

const statuses = { finished: 'FINISHED', stopped: 'KILLED', failed: 'FAILED' } as const;

/**
 * The authorization of requests to MLflow, and the secrets that errors about these requests must not contain.
 */
export interface MlflowCredentials {
  /** The value of the header `authorization`. */
  readonly authorization: string | undefined;
  /** Texts that no error may contain. */
  readonly secrets: readonly string[];
}

/**
 * A run at MLflow. Requests use version 2.0 of its REST interface
 * (https://mlflow.org/docs/latest/rest-api.html).
 */
export class MlflowService implements TrackingService {
  readonly title = 'MLflow';
  /**
   * The maximum number of rows in a request. A row has 11 metrics and the losses, so that a request stays
   * below the service's limit of metrics.
   */
  readonly mostRows = 50;
  readonly #state: MlflowState;
  readonly #options: MlflowCredentials & { readonly signal?: AbortSignal | undefined };

  constructor(
    state: MlflowState,
    options: MlflowCredentials & { readonly signal?: AbortSignal | undefined },
  ) {
    this.#state = state;
    this.#options = options;
  }

  get page(): string | undefined {
    const { trackingUri, experimentId, runId } = this.#state;
    if (runId === undefined) return undefined;
    const [experiment, run] = [experimentId ?? '', runId].map(encodeURIComponent);
    return `${trackingUri}/#/experiments/${experiment}/runs/${run}`;
  }

  async open(run: TrackedRun): Promise<void> {
    const { runId } = this.#state;
    if (runId === undefined) await this.#create(run);
    else await this.#request('runs/update', { run_id: runId, status: 'RUNNING' });
  }

  async send(rows: readonly MetricsRow[]): Promise<void> {
    const metrics = rows.flatMap(({ iteration, time, values }) =>
      Object.entries(values).map(([key, value]) => ({ key, value, timestamp: time, step: iteration })),
    );
    for (let start = 0; start < metrics.length; start += mostMetrics) {
      await this.#request('runs/log-batch', {
        run_id: this.#state.runId,
        metrics: metrics.slice(start, start + mostMetrics),
      });
    }
  }

  /** Does nothing, because MLflow needs no keep-alive. */
  async keepAlive(): Promise<void> {}

  async end(outcome: RunOutcome): Promise<void> {
    const { runId } = this.#state;
    await this.#request('runs/update', { run_id: runId, status: statuses[outcome], end_time: Date.now() });
  }

  /**
   * Creates the run. The run counts as created only after its parameters have been set, because they can be
   * set only once.
   */
  async #create({ flags, host, startedAt }: TrackedRun): Promise<void> {
    const experimentId = await this.#experiment();
    const { run } = (await this.#request('runs/create', {
      experiment_id: experimentId,
      run_name: this.#state.name,
      start_time: startedAt,
      tags: [{ key: 'host', value: host }],
    })) as { readonly run?: { readonly info?: { readonly run_id?: string } } };
    const runId = run?.info?.run_id;
    if (runId === undefined)
      throw new ServiceError('the answer to runs/create names no run', { status: 400 });
    const params = Object.entries(flags)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => ({ key, value: formatValue(value) }));
    for (let start = 0; start < params.length; start += mostParameters) {
      const some = params.slice(start, start + mostParameters);
      await this.#request('runs/log-batch', { run_id: runId, params: some });
    }
    Object.assign(this.#state, { experimentId, runId });
  }

  async #experiment(): Promise<string> {
    const { experiment } = this.#state;
    const known = await this.#experimentOfName();
    if (known !== undefined) return known;
    try {
      const created = (await this.#request('experiments/create', { name: experiment })) as {
        readonly experiment_id?: string;
      };
      if (created.experiment_id !== undefined) return created.experiment_id;
    } catch (error) {
      // another run may have created the experiment in the meantime
      const meanwhile = await this.#experimentOfName();
      if (meanwhile === undefined) throw error;
      return meanwhile;
    }
    throw new ServiceError('the answer to experiments/create names no experiment', { status: 400 });
  }

  async #experimentOfName(): Promise<string | undefined> {
    const name = encodeURIComponent(this.#state.experiment);
    try {
      const { experiment } = (await this.#request(
        `experiments/get-by-name?experiment_name=${name}`,
        undefined,
      )) as { readonly experiment?: { readonly experiment_id?: string } };
      return experiment?.experiment_id;
    } catch (error) {
      if (error instanceof ServiceError && error.answer.status === 404) return undefined;
      throw error;
    }
  }

  async #request(path: string, body?: object): Promise<unknown> {
    const url = `${this.#state.trackingUri}/api/2.0/mlflow/${path}`;
    return await requestJson({ url, body, ...this.#options });
  }
}

/** Returns `value` as a string, truncated if it is longer than MLflow allows. */
function formatValue(value: unknown): string {
  const text = Array.isArray(value) ? value.join(' ') : String(value);
  // truncated between two characters
  return new TextDecoder().decode(Buffer.from(text).subarray(0, mostValueBytes)).replace(/\uFFFD$/, '');
}
