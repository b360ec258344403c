import type { RunOutcome } from '@mtl/trainer';
import type { MetricsRow } from './metrics-rows.js';

/** A project of Weights & Biases. */
export interface WandbSettings {
  readonly project: string;
  /** The user or team that owns the project. Default: the entity of the API key. */
  readonly entity?: string | undefined;
  /** Name of the run at the service. */
  readonly name: string;
  /** The base address of the service's API, such as `https://api.wandb.ai`. */
  readonly baseUrl: string;
}

/** An experiment of MLflow. */
export interface MlflowSettings {
  readonly trackingUri: string;
  readonly experiment: string;
  /** Name of the run at the service. */
  readonly name: string;
}

/** The tracking services that a run reports to. */
export interface TrackingSettings {
  readonly wandb?: WandbSettings | undefined;
  readonly mlflow?: MlflowSettings | undefined;
}

/** Facts about a run that services get in addition to its metrics. */
export interface TrackedRun {
  /** The run's flags with their values. */
  readonly flags: Readonly<Record<string, unknown>>;
  readonly host: string;
  /** The time of the run's first start, in milliseconds since 1970. */
  readonly startedAt: number;
}

/** A service that receives rows of metrics. Every method may throw a `ServiceError`. */
export interface TrackingService {
  /** The service's name in messages. */
  readonly title: string;
  /** The maximum number of rows in one call of `send`. */
  readonly mostRows: number;
  /** The address of the run's page, once it is known. */
  readonly page: string | undefined;
  /** Creates the run, or continues it. */
  open(run: TrackedRun): Promise<void>;
  /** Sends `rows`, which begin at row `first` of the run. The same rows may be sent again. */
  send(rows: readonly MetricsRow[], first: number): Promise<void>;
  /** Tells the service that the run continues. Called repeatedly while there is nothing to send. */
  keepAlive(): Promise<void>;
  end(outcome: RunOutcome): Promise<void>;
}
