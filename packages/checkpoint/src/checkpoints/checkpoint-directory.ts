import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { MtlError } from '@mtl/errors';
import { readRegularFile } from '../files/file-system.js';
import { ioError, systemCode } from '../files/io-error.js';
import { Checkpoint, corruptCheckpoint } from './checkpoint.js';

/** The name of the file that contains the iteration of a directory's newest checkpoint, as in Megatron-LM. */
export const trackerName = 'latest_checkpointed_iteration.txt';

/**
 * Suffixes of directories that are not (or no longer) checkpoints:
 * - `saving`: a checkpoint that is being written
 * - `replaced`: a checkpoint that was renamed while another checkpoint of the same iteration is published
 * - `deleting`: a checkpoint that is being deleted
 *
 * A killed program leaves such directories behind.
 */
type UnfinishedKind = 'saving' | 'replaced' | 'deleting';

/** Returns the directory name of a checkpoint, as in Megatron-LM: `iter_0000123`. */
export function checkpointName(iteration: number): string {
  return `iter_${String(iteration).padStart(7, '0')}`;
}

/** Returns the name of an unfinished directory (see `UnfinishedKind`), for example `iter_0000123.saving`. */
export function unfinishedName(iteration: number, kind: UnfinishedKind): string {
  return `${checkpointName(iteration)}.${kind}`;
}

/**
 * Parses the name of a directory entry; returns undefined for any name that `checkpointName` and
 * `unfinishedName` do not produce.
 */
export function parseCheckpointName(
  name: string,
): { readonly iteration: number; readonly kind: 'checkpoint' | UnfinishedKind } | undefined {
  const match = /^iter_(\d{7,15})(?:\.(saving|replaced|deleting))?$/.exec(name);
  if (match === null) return undefined;
  const iteration = Number(match[1]);
  const kind = (match[2] ?? 'checkpoint') as 'checkpoint' | UnfinishedKind;
  // only one spelling of an iteration is accepted, because iter_00000001 and iter_0000001 would otherwise be
  // the same checkpoint
  return name.startsWith(checkpointName(iteration)) &&
    checkpointName(iteration).length === 5 + match[1]!.length
    ? { iteration, kind }
    : undefined;
}

/** A checkpoint directory that cannot be used, and the reason. */
export interface SkippedCheckpoint {
  readonly iteration: number;
  readonly path: string;
  readonly defect: MtlError;
}

/** The checkpoints of a directory. */
export interface CheckpointListing {
  /** Checkpoints with a valid manifest, last saved first. Their shards have not been checked. */
  readonly checkpoints: readonly Checkpoint[];
  /** Directories without a valid manifest, highest iteration first. */
  readonly skipped: readonly SkippedCheckpoint[];
}

/**
 * Reads the manifests in a directory and lists its checkpoints. A `replaced` checkpoint is also listed if its
 * replacement is missing, because the program was killed between the two renames.
 *
 * @returns undefined if the directory does not exist
 * @throws CheckpointError MTL_CHECKPOINT_IO or MTL_CHECKPOINT_DENIED if the directory cannot be read
 */
export async function listCheckpoints(directory: string): Promise<CheckpointListing | undefined> {
  let names: string[];
  try {
    names = await readdir(directory);
  } catch (error) {
    const code = systemCode(error);
    if (code === 'ENOENT') return undefined;
    throw ioError(error, { action: 'list', path: directory, exitCode: code === 'ENOTDIR' ? 2 : 1 });
  }
  const parsed = names.flatMap((name) => {
    const found = parseCheckpointName(name);
    return found === undefined ? [] : [{ name, ...found }];
  });
  const published = new Set(
    parsed.filter(({ kind }) => kind === 'checkpoint').map(({ iteration }) => iteration),
  );
  const checkpoints: Checkpoint[] = [];
  const skipped: SkippedCheckpoint[] = [];
  for (const { name, iteration, kind } of parsed) {
    if (kind !== 'checkpoint' && !(kind === 'replaced' && !published.has(iteration))) continue;
    const path = join(directory, name);
    try {
      const checkpoint = await Checkpoint.open(path);
      if (checkpoint.iteration !== iteration) {
        throw corruptCheckpoint(path, `its manifest is of iteration ${checkpoint.iteration}`);
      }
      checkpoints.push(checkpoint);
    } catch (error) {
      if (!MtlError.isInstance(error)) throw error;
      skipped.push({ iteration, path, defect: error });
    }
  }
  checkpoints.sort((a, b) => b.manifest.savedAtMs - a.manifest.savedAtMs || b.iteration - a.iteration);
  skipped.sort((a, b) => b.iteration - a.iteration);
  return { checkpoints, skipped };
}

/** The contents of a directory's tracker file: an iteration, or the reason why there is none. */
export type Tracker =
  | { readonly kind: 'none' }
  | { readonly kind: 'iteration'; readonly iteration: number }
  /**
   * `why` completes a sentence that begins with the file's name, for example `names "abc"`, `is a directory`.
   */
  | { readonly kind: 'unusable'; readonly why: string };

/** The maximum size of a tracker file, in bytes. A valid file contains a number and white space. */
const maxTrackerBytes = 4096;

/**
 * Reads the tracker file of a directory. An unusable tracker file is not an error, because checkpoints can be
 * found without this file.
 *
 * @throws CheckpointError MTL_CHECKPOINT_IO, _DENIED if the file cannot be read
 */
export async function readTracker(directory: string): Promise<Tracker> {
  const path = join(directory, trackerName);
  try {
    const text = (await readRegularFile(path, { maxBytes: maxTrackerBytes })).trim();
    if (/^\d{1,15}$/.test(text)) return { kind: 'iteration', iteration: Number(text) };
    return { kind: 'unusable', why: `names ${text === '' ? 'nothing' : JSON.stringify(text.slice(0, 40))}` };
  } catch (error) {
    if (MtlError.isInstance(error)) return { kind: 'unusable', why: error.message.slice(path.length + 1) };
    if (systemCode(error) === 'ENOENT') return { kind: 'none' };
    throw ioError(error, { action: 'read', path });
  }
}
