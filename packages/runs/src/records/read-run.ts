import { existsSync, lstatSync, readdirSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { OwnedDirectory } from '@mtl/checkpoint';
import { metricsPath } from './metrics-path.js';
import { lastMetrics, type MetricsRecord } from './metrics-records.js';
import { type RunRecord, readRunRecord, runRecordPath } from './run-record.js';
import { type RunState, stateOfRun } from './state-of-run.js';

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
    state: (await OwnedDirectory.isOwned(directory)) ? 'running' : stateOfRun(record),
    ...lastMetrics(metricsPath(directory)),
  };
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
