import { lstatSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { OwnedDirectory } from '@mtl/checkpoint';
import { ConfigurationError, MtlError } from '@mtl/errors';
import { checkArgument, textOption } from '@mtl/errors/options';
import { readRunRecord } from './run-record.js';

/** Files that a run writes into its folder. Everything else there is the user's. */
const written = [
  /^iter_\d{7,}$/,
  /^(run|metrics|samples|tracking)\.jsonl?(\.\d+|\.new)?$/,
  /^latest_checkpointed_iteration\.txt$/,
  /^tokenizer$/,
  /^run_owner\./,
];

/** Files that a fine-tuning run writes in addition. */
const writtenByFineTuning = [/^result\.json$/, /^predictions$/];

export interface RemovedRun {
  /** Files that were left in the folder, since no run wrote them; the folder is gone where there are none. */
  readonly left: readonly string[];
}

/**
 * Returns what `removeRun` would delete of a folder, and what it would leave.
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
 * Deletes what a run wrote into its folder, and the folder when that was all. The folder is owned meanwhile,
 * so that no run starts there.
 *
 * @throws ConfigurationError MTL_RUN_RUNNING for a run that still runs; MTL_RUN_NONE where the path is a
 *   link; MTL_RUN_RECORD
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
    // the record of this process last
    const others = own.filter((name) => !name.startsWith('run_owner.'));
    for (const name of others) rmSync(join(directory, name), { recursive: true, force: true });
  } finally {
    await owned.release();
  }
  const left = readdirSync(directory);
  if (left.length === 0) rmdirSync(directory);
  return { left };
}
