/** A project of Weights & Biases. */
export interface WandbSettings {
  readonly project: string;
  /** A user or a team. Default: that of the API key. */
  readonly entity?: string | undefined;
  /** What the run is called there. */
  readonly name: string;
  /** Of the interface, such as `https://api.wandb.ai`. */
  readonly baseUrl: string;
}

/** An experiment of MLflow. */
export interface MlflowSettings {
  readonly trackingUri: string;
  readonly experiment: string;
  /** What the run is called there. */
  readonly name: string;
}

/** The tracking services that a run reports to. */
export interface TrackingSettings {
  readonly wandb?: WandbSettings | undefined;
  readonly mlflow?: MlflowSettings | undefined;
}

/** What services are told about a run in addition to its metrics. */
export interface TrackedRun {
  /** Its flags with their values. */
  readonly flags: Readonly<Record<string, unknown>>;
  readonly host: string;
  /** When it was first started, in milliseconds since 1970. */
  readonly startedAt: number;
}
