import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigurationError } from '@mtl/errors';
import { isRun, type RunInformation, readRun } from './read-run.js';

/** Where runs are that name no directory. */
export const runsDirectory = 'runs';

/**
 * The runs in a directory by name, or the one that it is.
 *
 * @throws ConfigurationError MTL_RUN_NONE for a directory that does not exist; MTL_RUN_RECORD
 */
export async function listRuns(directory: string): Promise<RunInformation[]> {
  if (!existsSync(directory)) throw noRun(directory, `${directory}: no such directory or run`);
  if (isRun(directory)) return [await readRun(directory)];
  const names = readdirSync(directory).sort();
  const paths = names.map((name) => join(directory, name)).filter(isRun);
  return await Promise.all(paths.map(readRun));
}

/**
 * The folder of a run that a word names: a path, or a name in `runs`.
 *
 * @throws ConfigurationError MTL_RUN_NONE
 */
export function runDirectoryOf(name: string): string {
  const found = [name, join(runsDirectory, name)].find(isRun);
  if (found !== undefined) return found;
  throw noRun(name, existsSync(name) ? `${name} holds no run` : `${name}: no such run`);
}

/**
 * The directory that a word names: a path, or the folder of a run by its name in `runs`. What does not exist
 * stays as it is.
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
