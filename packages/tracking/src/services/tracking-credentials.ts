import type { MlflowCredentials } from './mlflow-service.js';

/** What opens tracking services; from the environment, and never written anywhere. */
export interface TrackingCredentials {
  readonly wandbKey: string | undefined;
  readonly mlflow: MlflowCredentials;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The credentials in an environment, by the names that the clients of the services read: WANDB_API_KEY,
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
  // in this order, as the client of MLflow
  if (user !== undefined && password !== undefined) {
    const encoded = Buffer.from(`${user}:${password}`).toString('base64');
    return { authorization: `Basic ${encoded}`, secrets: [password, encoded] };
  }
  if (token !== undefined) return { authorization: `Bearer ${token}`, secrets: [token] };
  return { authorization: undefined, secrets: [] };
}
