import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigurationError, namingFile } from '@mtl/errors';
import { renameFileSync } from '@mtl/errors/files';
import type { DeliveryState } from './delivery.js';
import type { MlflowSettings, TrackingSettings, WandbSettings } from './tracking-settings.js';

export type WandbState = WandbSettings & DeliveryState & { readonly id: string; entity?: string | undefined };
export type MlflowState = MlflowSettings & DeliveryState & { experimentId?: string; runId?: string };

/**
 * The state of the tracking services in a run folder: for each service, its settings, the run's identity at
 * the service, and the number of rows that the service has received.
 */
export interface TrackingState {
  wandb?: WandbState;
  mlflow?: MlflowState;
}

/** The value of the field `format`, by which tracking.json is recognized. */
const format = 'mtl-tracking';

/**
 * Returns the path of tracking.json in the run folder `directory`. The file never contains a key or a
 * password.
 */
export const trackingPath = (directory: string): string => join(directory, 'tracking.json');

/**
 * Reads the tracking state in the run folder `directory`; undefined if the run reported to no service.
 *
 * @throws ConfigurationError MTL_TRACKING_STATE
 */
export function readTrackingState(directory: string): TrackingState | undefined {
  const path = trackingPath(directory);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw unreadable(path, (error as Error).message);
  }
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    throw unreadable(path, (error as Error).message);
  }
  if (isState(content)) {
    const { wandb, mlflow } = content;
    return { ...(wandb && { wandb }), ...(mlflow && { mlflow }) };
  }
  throw unreadable(path, 'not what a training run wrote');
}

/**
 * Writes the tracking state atomically.
 *
 * @throws an error that names the file if the file cannot be written
 */
export function writeTrackingState(directory: string, { wandb, mlflow }: TrackingState): void {
  const path = trackingPath(directory);
  const content = { format, version: 1, wandb, mlflow };
  namingFile(path, () => {
    writeFileSync(`${path}.new`, `${JSON.stringify(content, undefined, 2)}\n`);
    renameFileSync(`${path}.new`, path);
  });
}

/**
 * Returns the tracking state for a run. If `settings` names the same destination as a service's known state,
 * this state is continued.
 */
export function continuedState(
  known: TrackingState | undefined,
  { settings, newId }: { readonly settings: TrackingSettings; readonly newId: () => string },
): TrackingState {
  const { wandb, mlflow } = settings;
  const state: TrackingState = {};
  if (wandb !== undefined) {
    const same = isSame(known?.wandb, wandb, ['project', 'baseUrl']);
    const isSameEntity = wandb.entity === undefined || known?.wandb?.entity === wandb.entity;
    state.wandb =
      same !== undefined && isSameEntity
        ? { ...same, name: wandb.name, isEnded: false }
        : { ...wandb, id: newId(), rows: 0, isEnded: false };
  }
  if (mlflow !== undefined) {
    const same = isSame(known?.mlflow, mlflow, ['trackingUri', 'experiment']);
    state.mlflow =
      same === undefined
        ? { ...mlflow, rows: 0, isEnded: false }
        : { ...same, name: mlflow.name, isEnded: false };
  }
  return state;
}

function isSame<State extends object>(
  known: State | undefined,
  settings: Partial<State>,
  keys: ReadonlyArray<keyof State>,
): State | undefined {
  return known !== undefined && keys.every((key) => known[key] === settings[key]) ? known : undefined;
}

function isState(content: unknown): content is TrackingState {
  const state = content as { format?: unknown; version?: unknown } & Record<string, unknown>;
  if (typeof content !== 'object' || content === null) return false;
  return state.format === format && state.version === 1 && isWandb(state.wandb) && isMlflow(state.mlflow);
}

const isWandb = (part: unknown): boolean =>
  part === undefined || hasTexts(part, ['project', 'baseUrl', 'id']);
const isMlflow = (part: unknown): boolean =>
  part === undefined || hasTexts(part, ['trackingUri', 'experiment']);

function hasTexts(part: unknown, keys: readonly string[]): boolean {
  if (typeof part !== 'object' || part === null) return false;
  const values = part as Record<string, unknown>;
  return Number.isInteger(values.rows) && [...keys, 'name'].every((key) => typeof values[key] === 'string');
}

function unreadable(path: string, why: string): ConfigurationError {
  return new ConfigurationError('MTL_TRACKING_STATE', `${path}: ${why}`, {
    expected: 'the state of tracking services that a training run wrote, of version 1',
    remedy: `move ${path} away: the run then becomes a new one at the services`,
  });
}
