import { Delivery, type DeliveryState, type DeliveryTimes } from './delivery.js';
import { MetricsRows } from './metrics-rows.js';
import { MlflowService } from './mlflow-service.js';
import type { TrackingCredentials } from './tracking-credentials.js';
import type { TrackingService } from './tracking-service.js';
import type { TrackedRun } from './tracking-settings.js';
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
export interface OpenedDeliveries {
  readonly deliveries: readonly Delivery[];
  /** Ends requests and keeps what is not sent by now. */
  giveUp(): void;
}

/** A delivery to each service of the state; to wandb with a key only. */
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
