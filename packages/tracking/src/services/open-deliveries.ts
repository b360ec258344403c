import { Delivery, type DeliveryState, type DeliveryTimes } from './delivery.js';
import { MetricsRows } from './metrics-rows.js';
import { type MlflowCredentials, MlflowService } from './mlflow-service.js';
import type { TrackedRun, TrackingService } from './tracking-settings.js';
import { type TrackingState, writeTrackingState } from './tracking-state.js';
import { WandbService } from './wandb-service.js';

export interface OpenDeliveriesOptions {
  /** The run folder. */
  readonly directory: string;
  /** Its metrics.jsonl. */
  readonly metricsPath: string;
  /** Changed while rows are sent. */
  readonly state: TrackingState;
  readonly run: TrackedRun;
  readonly credentials: TrackingCredentials;
  readonly times?: DeliveryTimes | undefined;
}

/** Deliveries of a run folder to services. */
interface OpenedDeliveries {
  readonly deliveries: readonly Delivery[];
  /** Ends requests and keeps what is not sent by now. */
  giveUp(): void;
}

/** Returns a delivery to each service of the state; to wandb with a key only. */
export function openDeliveries(
  options: OpenDeliveriesOptions & { readonly onMessage: (text: string) => void },
): OpenedDeliveries {
  const { directory, metricsPath, state, run, credentials, onMessage, times } = options;
  const { wandb, mlflow } = state;
  const { wandbKey } = credentials;
  const controller = new AbortController();
  const { signal } = controller;
  const deliveryOf = (service: TrackingService, sent: DeliveryState): Delivery =>
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
      : [deliveryOf(new WandbService(wandb, { key: wandbKey, signal }), wandb)]),
    ...(mlflow === undefined
      ? []
      : [deliveryOf(new MlflowService(mlflow, { ...credentials.mlflow, signal }), mlflow)]),
  ];
  return {
    deliveries,
    giveUp: () => {
      controller.abort();
      for (const delivery of deliveries) delivery.giveUp();
    },
  };
}

/** Keys that open tracking services; from the environment, and never written anywhere. */
export interface TrackingCredentials {
  readonly wandbKey: string | undefined;
  readonly mlflow: MlflowCredentials;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Returns the credentials in an environment, by the names that the clients of the services read:
 * WANDB_API_KEY, MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME with MLFLOW_TRACKING_PASSWORD.
 */
export function trackingCredentials(environment: Environment): TrackingCredentials {
  const given = (name: string): string | undefined => environment[name]?.trim() || undefined;
  return { wandbKey: given('WANDB_API_KEY'), mlflow: mlflowCredentials(given) };
}

function mlflowCredentials(given: (name: string) => string | undefined): MlflowCredentials {
  const user = given('MLFLOW_TRACKING_USERNAME');
  const password = given('MLFLOW_TRACKING_PASSWORD');
  const token = given('MLFLOW_TRACKING_TOKEN');
  // in this order, as the client of MLflow
  if (user !== undefined && password !== undefined) {
    const encoded = Buffer.from(`${user}:${password}`).toString('base64');
    return { authorization: `Basic ${encoded}`, secrets: [password, encoded] };
  }
  if (token !== undefined) return { authorization: `Bearer ${token}`, secrets: [token] };
  return { authorization: undefined, secrets: [] };
}
