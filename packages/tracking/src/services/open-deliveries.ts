import { Delivery, type DeliveryState, type DeliveryTimes } from './delivery.js';
import { MetricsRows } from './metrics-rows.js';
import { type MlflowCredentials, MlflowService } from './mlflow-service.js';
import type { TrackedRun, TrackingService } from './tracking-settings.js';
import { type TrackingState, writeTrackingState } from './tracking-state.js';
import { WandbService } from './wandb-service.js';

export interface OpenDeliveriesOptions {
  /** The run folder. */
  readonly directory: string;
  /** The path of the run's metrics.jsonl. */
  readonly metricsPath: string;
  /** The state of the services. It is updated while rows are sent. */
  readonly state: TrackingState;
  readonly run: TrackedRun;
  readonly credentials: TrackingCredentials;
  readonly times?: DeliveryTimes | undefined;
}

/** The open deliveries from a run folder to services. */
interface OpenedDeliveries {
  readonly deliveries: readonly Delivery[];
  /** Ends the requests in progress. Rows that were not sent remain in the run folder. */
  giveUp(): void;
}

/** Returns a delivery for each service in the state. For wandb, a key must also be available. */
export function openDeliveries(
  options: OpenDeliveriesOptions & { readonly onMessage: (text: string) => void },
): OpenedDeliveries {
  const { directory, metricsPath, state, run, credentials, onMessage, times } = options;
  const { wandb, mlflow } = state;
  const { wandbKey } = credentials;
  const controller = new AbortController();
  const { signal } = controller;
  const makeDelivery = (service: TrackingService, sent: DeliveryState): Delivery =>
    new Delivery({
      service,
      run,
      state: sent,
      rows: new MetricsRows(metricsPath),
      save: () => writeTrackingState(directory, state),
      onMessage,
      ...(times === undefined ? {} : { times }),
    });
  const deliveries = [
    ...(wandb === undefined || wandbKey === undefined
      ? []
      : [makeDelivery(new WandbService(wandb, { key: wandbKey, signal }), wandb)]),
    ...(mlflow === undefined
      ? []
      : [makeDelivery(new MlflowService(mlflow, { ...credentials.mlflow, signal }), mlflow)]),
  ];
  return {
    deliveries,
    giveUp: () => {
      controller.abort();
      for (const delivery of deliveries) delivery.giveUp();
    },
  };
}

/**
 * The credentials for tracking services. They come from environment variables and are never written to disk.
 */
export interface TrackingCredentials {
  readonly wandbKey: string | undefined;
  readonly mlflow: MlflowCredentials;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the credentials from the environment variables that the services' own clients use: WANDB_API_KEY,
 * MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME with MLFLOW_TRACKING_PASSWORD.
 */
export function trackingCredentials(environment: Environment): TrackingCredentials {
  const given = (name: string): string | undefined => environment[name]?.trim() || undefined;
  return { wandbKey: given('WANDB_API_KEY'), mlflow: mlflowCredentials(given) };
}

function mlflowCredentials(given: (name: string) => string | undefined): MlflowCredentials {
  const user = given('MLFLOW_TRACKING_USERNAME');
  const password = given('MLFLOW_TRACKING_PASSWORD');
  const token = given('MLFLOW_TRACKING_TOKEN');
  // user and password take precedence over the token, as in MLflow's client
  if (user !== undefined && password !== undefined) {
    const encoded = Buffer.from(`${user}:${password}`).toString('base64');
    return { authorization: `Basic ${encoded}`, secrets: [password, encoded] };
  }
  if (token !== undefined) return { authorization: `Bearer ${token}`, secrets: [token] };
  return { authorization: undefined, secrets: [] };
}
