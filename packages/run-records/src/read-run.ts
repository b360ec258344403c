import { existsSync, lstatSync, readdirSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { OwnedDirectory } from '@mtl/checkpoint';
import { ConfigurationError } from '@mtl/errors';
import { checkArgument, textOption } from '@mtl/errors/options';
import { lastMetrics, type MetricsRecord, metricsPath } from './metrics-records.js';
import { type RunRecord, type RunState, readRunRecord, runRecordPath, stateOfRun } from './run-record.js';

/** Information about a run, read from its folder. */
export interface RunInformation {
  readonly name: string;
  readonly directory: string;
  readonly state: RunState;
  /** The last step in metrics.jsonl; undefined before the first step. */
  readonly step: MetricsRecord | undefined;
  /** The last evaluation in metrics.jsonl. */
  readonly validation: MetricsRecord | undefined;
  /** The size of the folder on disk, in bytes. */
  readonly bytes: number;
  /** The run's record; undefined for a run of an older version. */
  readonly record: RunRecord | undefined;
}

/** Returns true if `directory` is a run folder, that is, if it contains a record, metrics or a checkpoint. */
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
 * Reads the run folder `directory`.
 *
 * @throws ConfigurationError MTL_RUN_RECORD for a record that cannot be read
 */
export async function readRun(directory: string): Promise<RunInformation> {
  checkArgument(directory, { name: 'directory', check: textOption });
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

/**
 * Returns the size of a file or folder on disk, in bytes. Links count, but not their targets. A file that is
 * removed while sizes are added counts as 0.
 */
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

/** The default directory of run folders. */
export const runsDirectory = 'runs';

/**
 * Returns the runs in a directory, sorted by name. If the directory itself is a run folder, returns only this
 * run.
 *
 * @throws ConfigurationError MTL_RUN_NONE for a directory that does not exist; MTL_RUN_RECORD
 */
export async function listRuns(directory: string): Promise<RunInformation[]> {
  checkArgument(directory, { name: 'directory', check: textOption });
  if (!existsSync(directory)) throw noRun(directory, `${directory}: no such directory or run`);
  if (isRun(directory)) return [await readRun(directory)];
  const names = readdirSync(directory).sort();
  const paths = names.map((name) => join(directory, name)).filter(isRun);
  return await Promise.all(paths.map(readRun));
}

/**
 * Returns the folder of a run. `name` is its path, or its name in the directory `runs`.
 *
 * @throws ConfigurationError MTL_RUN_NONE
 */
export function findRunDirectory(name: string): string {
  const found = [name, join(runsDirectory, name)].find(isRun);
  if (found !== undefined) return found;
  throw noRun(name, existsSync(name) ? `${name} holds no run` : `${name}: no such run`);
}

/**
 * Returns the directory that a command-line argument means: its path, or the folder of the run with this name
 * in the directory `runs`. An argument that is neither is returned unchanged.
 */
export function directoryOfRuns(word: string): string {
  const named = join(runsDirectory, word);
  return !existsSync(word) && isRun(named) ? named : word;
}

function noRun(name: string, message: string): ConfigurationError {
  return new ConfigurationError('MTL_RUN_NONE', message, {
    expected: `what --save of a training run named, or the name of a run in ${runsDirectory}`,
    remedy: 'mtl runs DIR lists the runs in a directory',
    details: { name },
  });
}
