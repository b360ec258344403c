import { existsSync, lstatSync, readdirSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { OwnedDirectory } from '@mtl/checkpoint';
import { MtlError } from '@mtl/errors';
import { metricsPath } from '../training/metrics-files.js';
import { lastMetrics, type MetricsRecord } from './metrics-records.js';
import { type RunRecord, readRunRecord, runRecordPath } from './run-record.js';

/**
 * `running`: a process owns the folder. `finished`: the last iteration was reached, or the
 * validation loss had stopped falling. `stopped`: it ended in
 * order before that and can be resumed. `failed`: an error or a signal that cannot be caught ended it.
 * `unknown`: it has no record.
 */
export type RunState = 'running' | 'finished' | 'stopped' | 'failed' | 'unknown';

/** A run as its folder shows it. */
export interface RunInformation {
  readonly name: string;
  readonly directory: string;
  readonly state: RunState;
  /** The last step in metrics.jsonl, or undefined before the first. */
  readonly step: MetricsRecord | undefined;
  /** The last evaluation in metrics.jsonl. */
  readonly validation: MetricsRecord | undefined;
  /** Bytes on disk. */
  readonly bytes: number;
  /** Undefined for a run of an older version. */
  readonly record: RunRecord | undefined;
}

/** Whether a folder holds a run: its record, its metrics or a checkpoint. */
export function isRun(directory: string): boolean {
  if (existsSync(runRecordPath(directory)) || existsSync(metricsPath(directory))) return true;
  try {
    return readdirSync(directory).some((name) => checkpointPattern.test(name));
  } catch {
    return false;
  }
}

const checkpointPattern = /^iter_\d{7,}$/;

/**
 * What a run folder shows.
 *
 * @throws ConfigurationError MTL_RUN_RECORD for a record that cannot be read
 */
export async function readRun(directory: string): Promise<RunInformation> {
  const record = readRunRecord(directory);
  return {
    name: basename(resolve(directory)),
    directory,
    record,
    bytes: bytesOnDisk(directory),
    state: (await isOwned(directory)) ? 'running' : stateOf(record),
    ...lastMetrics(metricsPath(directory)),
  };
}

/** Whether a process that lives saves into a folder. */
async function isOwned(directory: string): Promise<boolean> {
  try {
    await OwnedDirectory.refuseOwned(directory);
    return false;
  } catch (error) {
    return MtlError.isInstance(error) && error.code === 'MTL_CHECKPOINT_OWNED';
  }
}

function stateOf(record: RunRecord | undefined): RunState {
  if (record === undefined) return 'unknown';
  const reason = record.starts.at(-1)!.end?.reason;
  if (reason === 'done' || reason === 'early-stopping') return 'finished';
  return reason === undefined || reason === 'failed' ? 'failed' : 'stopped';
}

/** Links count, what they name does not. What is removed meanwhile counts as nothing. */
function bytesOnDisk(path: string): number {
  try {
    const status = lstatSync(path);
    const own = status.blocks * 512;
    if (!status.isDirectory()) return own;
    return readdirSync(path).reduce((sum, name) => sum + bytesOnDisk(join(path, name)), own);
  } catch {
    return 0;
  }
}
