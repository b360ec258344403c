import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigurationError } from '@mtl/errors';
import { renameFileSync } from '@mtl/errors/files';
import type { TrackedRun } from '@mtl/tracking';
import * as z from 'zod';

const text = z.string();
const count = z.int().nonnegative();

/** A dataset of a run, with a fingerprint that can be computed without reading the complete files. */
const datasetSchema = z.object({
  prefix: text,
  idxBytes: count,
  binBytes: count,
  /**
   * The SHA-256 of both files' sizes and of blocks of both files (see `datasetFingerprint`), in hexadecimal
   * digits.
   */
  sampledSha256: text,
  /**
   * The SHA-256 of all bytes of both files, if they were read completely. Absent in records of older
   * versions.
   */
  sha256: text.optional(),
});

/** A file or folder with a task's data, with a fingerprint similar to the fingerprint of a dataset. */
const taskDataSchema = z.object({
  path: text,
  /** The total size of the files in bytes. */
  bytes: count,
  /** The SHA-256 of names, sizes and blocks (see `taskDataFingerprint`), in hexadecimal digits. */
  sampledSha256: text,
  /**
   * The SHA-256 of names, sizes and contents, if all files were read. Absent in records of older versions.
   */
  sha256: text.optional(),
});

const startSchema = z.object({
  /** The time of the start in UTC, in ISO 8601 format. */
  time: text,
  host: text,
  pid: count,
  /**
   * The words of the command line, beginning with Node.js and the program. `workingDirectory` is the
   * directory in which it ran.
   */
  command: z.array(text),
  workingDirectory: text,
  model: text,
  preset: text,
  /** The task of a fine-tuning run; absent for pretraining. */
  task: text.optional(),
  /** Every flag with a value. */
  flags: z.record(text, z.unknown()),
  /**
   * The flags that distinguish this run, with the values in effect, including values that are derived from
   * other flags. Absent in records of older versions.
   */
  resolved: z.record(text, z.unknown()).optional(),
  /** Checksums of the files that flags name, by flag (see `contentsOfFlags`). */
  contents: z.record(text, text).optional(),
  /** The SHA-256 of all bytes of the files that were read completely. Absent in records of older versions. */
  contentsSha256: z.record(text, text).optional(),
  /** The iteration from which the run continued; 0 for a new run. */
  iteration: count,
  trainIterations: count,
  /**
   * The commit of the checkout from which the program was run, followed by `-dirty` if files were changed.
   * Null outside of a checkout.
   */
  commit: text.nullable(),
  versions: z.object({ mtl: text, node: text, onednn: text }),
  instructionSet: text,
  device: text,
  /** The number of CPU threads of rank 0, and the reason for this number. */
  threads: z.object({ count, reason: text }),
  /** The algorithms that were chosen for matmuls, and the platform. Absent if none were chosen. */
  matmuls: z.object({ platform: text, choices: z.record(text, text) }).optional(),
  layout: z.object({
    worldSize: count,
    tensor: count,
    pipeline: count,
    data: count,
    /**
     * The number of processes over which a layer's experts are sharded. `expertTensor` is the number of
     * processes that share one expert. Both are absent without experts.
     */
    expert: count.optional(),
    expertTensor: count.optional(),
  }),
  datasets: z.array(z.union([datasetSchema, taskDataSchema])),
  /** How this start of the run ended. Absent while the start still runs, or if its process was killed. */
  end: z
    .object({
      time: text,
      /**
       * `done`, `failed`, or the reason for ending early: a signal, `exit-interval`, `deadline`, `data`,
       * `early-stopping`, `left` if the program left the loop over the steps, or the reason that an extension
       * gave.
       */
      reason: text,
      iteration: count,
      /** The code and message of the error that ended this start. */
      error: text.optional(),
      /** The error's remedy; absent if the error has none, and in records of older versions. */
      remedy: text.optional(),
    })
    .optional(),
});

const schema = z.object({
  format: z.literal('mtl-run'),
  version: z.literal(1),
  /** All starts of the run: the first, and one for each resumption and restart. */
  starts: z.array(startSchema).min(1),
});

/**
 * The record of a run: everything that is recorded except its curves. The run.json in the run's folder has
 * the same content.
 */
export type RunRecord = z.infer<typeof schema>;
/** A start of a run. */
export type RunStart = RunRecord['starts'][number];

/** A dataset in a record. */
export type DatasetRecord = z.infer<typeof datasetSchema>;
/** A file or folder with a task's data, as described in a run's record. */
export type TaskDataRecord = z.infer<typeof taskDataSchema>;

/** Returns the path of the record in the run folder `directory`. */
export const runRecordPath = (directory: string): string => join(directory, 'run.json');

/**
 * Returns the record in the run folder `directory`; undefined if the folder has no record.
 *
 * @throws ConfigurationError MTL_RUN_RECORD for a record that cannot be read
 */
export function readRunRecord(directory: string): RunRecord | undefined {
  const path = runRecordPath(directory);
  let content: string;
  try {
    content = readFileSync(path, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw unreadable(path, (error as Error).message, error);
  }
  return parseRunRecord(content, { path });
}

/**
 * Parses a run's record from the content of its run.json.
 *
 * `path`: the file name that errors contain
 *
 * @throws ConfigurationError MTL_RUN_RECORD
 */
export function parseRunRecord(text: string, { path }: { readonly path: string }): RunRecord {
  try {
    return schema.parse(JSON.parse(text));
  } catch (error) {
    const why =
      error instanceof z.ZodError ? z.prettifyError(error).split('\n')[0]! : (error as Error).message;
    throw unreadable(path, why, error);
  }
}

/**
 * Writes a run's record atomically.
 *
 * @throws ConfigurationError MTL_RUN_RECORD if the record cannot be written
 */
export function writeRunRecord(directory: string, record: RunRecord): void {
  const path = runRecordPath(directory);
  try {
    writeFileSync(`${path}.new`, `${JSON.stringify(record, undefined, 2)}\n`);
    renameFileSync(`${path}.new`, path);
  } catch (error) {
    throw new ConfigurationError('MTL_RUN_RECORD', `${path}: ${(error as Error).message}`, {
      expected: 'a file that can be written',
      remedy: 'free space on that disk, or save elsewhere with --save',
      exitCode: 1,
      cause: error,
    });
  }
}

function unreadable(path: string, why: string, cause: unknown): ConfigurationError {
  return new ConfigurationError('MTL_RUN_RECORD', `${path}: ${why}`, {
    expected: 'a record that a training run wrote, of version 1',
    remedy: `move ${path} away: checkpoints and metrics do not need it`,
    cause,
  });
}

/**
 * The state of a run. `running`: a process owns its folder. `finished`: it reached its last iteration, or
 * ended early because the validation loss had stopped falling. `stopped`: it ended regularly before its last
 * iteration, and can be resumed. `failed`: it was ended by an error, or by a signal that cannot be caught.
 * `unknown`: it has no record.
 */
export type RunState = 'running' | 'finished' | 'stopped' | 'failed' | 'unknown';

/** Returns a run's state according to its record. Valid only if no process owns the run's folder. */
export function stateOfRun(record: RunRecord | undefined): Exclude<RunState, 'running'> {
  if (record === undefined) return 'unknown';
  const reason = record.starts.at(-1)!.end?.reason;
  if (reason === 'done' || reason === 'early-stopping') return 'finished';
  return reason === undefined || reason === 'failed' ? 'failed' : 'stopped';
}

/** Returns the facts in a run's record that tracking services show. */
export function trackedRun({ starts }: RunRecord): TrackedRun {
  const { flags, host } = starts.at(-1)!;
  return { flags, host, startedAt: Date.parse(starts[0]!.time) };
}
