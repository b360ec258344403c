import { lstatSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { OwnedDirectory } from '@mtl/checkpoint';
import { ConfigurationError, MtlError } from '@mtl/errors';
import { checkArgument, textOption } from '@mtl/errors/options';
import { readRunRecord } from './run-record.js';

/**
 * Patterns for the names of the files that a run writes to its folder. All other files in it belong to the
 * user.
 */
const written = [
  /^iter_\d{7,}$/,
  /^(run|metrics|samples|tracking)\.jsonl?(\.\d+|\.new)?$/,
  /^latest_checkpointed_iteration\.txt$/,
  /^tokenizer$/,
  /^run_owner\./,
];

/** Patterns for the names of further files that a fine-tuning run writes. */
const writtenByFineTuning = [/^result\.json$/, /^predictions$/];

export interface RemovedRun {
  /**
   * The files that were kept because runs do not write files with these names. The list is empty if the
   * folder was removed.
   */
  readonly left: readonly string[];
}

/**
 * Returns the files in a run folder that `removeRun` would delete, and the files that it would keep.
 *
 * @throws ConfigurationError MTL_RUN_RECORD for a record that cannot be read
 */
export function contentsOfRun(directory: string): {
  readonly own: readonly string[];
  readonly left: readonly string[];
} {
  const names = readdirSync(directory).sort();
  const isFineTuning = readRunRecord(directory)?.starts.at(-1)?.task !== undefined;
  const patterns = isFineTuning ? [...written, ...writtenByFineTuning] : written;
  const isOwn = (name: string): boolean => patterns.some((pattern) => pattern.test(name));
  return { own: names.filter(isOwn), left: names.filter((name) => !isOwn(name)) };
}

/**
 * Deletes a run's files, and also its folder if it is then empty. During the deletion, this process owns the
 * folder, so that no run can start in it.
 *
 * @throws ConfigurationError MTL_RUN_RUNNING for a run that still runs; MTL_RUN_NONE if the path is a link;
 *   MTL_RUN_RECORD
 */
export async function removeRun(directory: string): Promise<RemovedRun> {
  checkArgument(directory, { name: 'directory', check: textOption });
  if (lstatSync(directory).isSymbolicLink()) {
    throw new ConfigurationError('MTL_RUN_NONE', `${directory} is a symbolic link`, {
      expected: 'the folder of a run itself',
    });
  }
  const owned = await OwnedDirectory.own({ directory }).catch((error: unknown) => {
    if (!MtlError.isInstance(error) || error.code !== 'MTL_CHECKPOINT_OWNED') throw error;
    throw new ConfigurationError('MTL_RUN_RUNNING', error.message, {
      expected: 'a run that has ended',
      remedy: 'end that run first',
      cause: error,
    });
  });
  try {
    const { own } = contentsOfRun(directory);
    // the files that mark the ownership are deleted last, so that no run can start in the meantime
    const others = own.filter((name) => !name.startsWith('run_owner.'));
    for (const name of others) rmSync(join(directory, name), { recursive: true, force: true });
  } finally {
    await owned.release();
  }
  const left = readdirSync(directory);
  if (left.length === 0) rmdirSync(directory);
  return { left };
}
