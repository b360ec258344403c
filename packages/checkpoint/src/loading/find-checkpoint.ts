import { stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { CheckpointError, MtlError } from '@mtl/errors';
import { Checkpoint } from '../checkpoints/checkpoint.js';
import {
  type CheckpointListing,
  listCheckpoints,
  readTracker,
  type SkippedCheckpoint,
  type Tracker,
  trackerName,
} from '../checkpoints/checkpoint-directory.js';
import { manifestName } from '../checkpoints/manifest.js';
import { systemCode, withIoErrors } from '../files/io-error.js';
import { checkTensors, loadVerified, type TensorsToLoad } from './load-checkpoint.js';
import { verifyCheckpoint } from './verify-checkpoint.js';

/**
 * The result of a search: a complete checkpoint, or `none` if the directory does not exist or has no
 * checkpoint.
 */
type FoundCheckpoint =
  | {
      readonly kind: 'found';
      readonly checkpoint: Checkpoint;
      /** True if the tensors of `load` have the checkpoint's values. */
      readonly isLoaded: boolean;
      readonly skipped: readonly SkippedCheckpoint[];
    }
  | { readonly kind: 'none'; readonly reason: 'no-directory' | 'no-checkpoints' };

/**
 * Finds the checkpoint to resume from. The first choice is the checkpoint that
 * latest_checkpointed_iteration.txt names. If the file names no complete checkpoint, the choice is the last
 * saved complete checkpoint. Every candidate is checked byte by byte. If the choice differs from the tracker
 * file, `onNotice` is called with the reasons, one sentence per call.
 *
 * If `load` is given, tensors are loaded from the candidate while it is checked, so that every byte is read
 * once. A damaged candidate leaves some of its values in the tensors. The next candidate overwrites them.
 *
 * If `step` is given, only the checkpoint of this iteration is considered, because a caller that names a
 * checkpoint does not want a different one.
 *
 * @param options.load returns the tensors to load from a candidate; undefined if the candidate is only to be
 *   checked
 * @throws CheckpointError MTL_CHECKPOINT_NONE_WHOLE, which lists all defects; MTL_CHECKPOINT_STEP (wrong
 *   input) if `step` does not exist; MTL_CHECKPOINT_CORRUPT if the checkpoint of `step` is incomplete;
 *   MTL_CHECKPOINT_DIRECTORY (wrong input) if `directory` is itself a checkpoint; MTL_CHECKPOINT_IO, _DENIED;
 *   if `load` is given, MTL_CHECKPOINT_MISMATCH and MTL_NOT_FINITE
 */
export async function findCheckpoint(options: {
  readonly directory: string;
  readonly step?: number;
  readonly onNotice: (notice: string) => void;
  readonly load?: ChooseTensors;
}): Promise<FoundCheckpoint> {
  const { directory, step, onNotice, load } = options;
  const listing = await listCheckpoints(directory);
  if (listing === undefined) {
    if (step !== undefined) throw noSuchStep({ directory, step, known: [] });
    return { kind: 'none', reason: 'no-directory' };
  }
  if (step !== undefined) return await findStep({ directory, step, listing, load });
  const tracker = await readTracker(directory);
  const { checkpoints } = listing;
  if (checkpoints.length + listing.skipped.length === 0) {
    if (tracker.kind === 'none') {
      await refuseCheckpointItself(directory);
      return { kind: 'none', reason: 'no-checkpoints' };
    }
    throw new CheckpointError(
      'MTL_CHECKPOINT_NONE_WHOLE',
      `${directory} has a ${trackerName} that ${whatIsIn(tracker)}, but no checkpoint`,
      { remedy: 'restore the checkpoint, or remove that file to start afresh', details: { directory } },
    );
  }
  for (const { path, defect } of listing.skipped) onNotice(`skipped ${path}: ${defect.message}`);
  const named = tracker.kind === 'iteration' ? tracker.iteration : undefined;
  const preferred = checkpoints.filter(({ iteration }) => iteration === named);
  const others = checkpoints.filter(({ iteration }) => iteration !== named);
  const skipped: SkippedCheckpoint[] = [...listing.skipped];
  for (const candidate of [...preferred, ...others]) {
    const tensors = await chooseTensors(candidate, load);
    try {
      await check(candidate, tensors);
    } catch (error) {
      // the checkpoint is complete, so only the user can decide to use an older checkpoint
      if (!MtlError.isInstance(error) || error.code === 'MTL_NOT_FINITE') throw error;
      skipped.push({ iteration: candidate.iteration, path: candidate.path, defect: error });
      onNotice(`skipped ${candidate.path}: ${error.message}`);
      continue;
    }
    const checkpoint = new Checkpoint({ path: candidate.path, manifest: candidate.manifest, verified: true });
    noticeTracker({ checkpoint, tracker, newest: checkpoints[0]!, onNotice });
    return { kind: 'found', checkpoint, isLoaded: tensors !== undefined, skipped };
  }
  const defects = skipped.map(({ path, defect }) => `  ${path}: ${defect.message}`);
  throw new CheckpointError(
    'MTL_CHECKPOINT_NONE_WHOLE',
    `none of the ${skipped.length} checkpoints in ${directory} is whole:\n${defects.join('\n')}`,
    {
      remedy: 'restore one from a copy, or start afresh with another directory',
      details: { directory, skipped },
    },
  );
}

/** Returns the tensors to load from a candidate; undefined if the candidate is only to be checked. */
type ChooseTensors = (candidate: Checkpoint) => Promise<TensorsToLoad | undefined>;

async function chooseTensors(
  candidate: Checkpoint,
  load: ChooseTensors | undefined,
): Promise<TensorsToLoad | undefined> {
  const tensors = await load?.(candidate);
  if (tensors !== undefined) checkTensors({ checkpoint: candidate, ...tensors });
  return tensors;
}

/** Checks all bytes of a candidate, and loads the tensors, if any, in the same pass. */
async function check(candidate: Checkpoint, tensors: TensorsToLoad | undefined): Promise<void> {
  if (tensors === undefined) await verifyCheckpoint(candidate);
  else await loadVerified({ checkpoint: candidate, ...tensors });
}

/**
 * Throws if the path is a checkpoint itself, such as iter_0000100, instead of its parent directory. Without
 * this check, the search would find no checkpoint inside, and a new run would start although the user wants
 * to resume.
 */
async function refuseCheckpointItself(directory: string): Promise<void> {
  const manifest = join(directory, manifestName);
  const status = await withIoErrors({ action: 'read', path: manifest }, () =>
    stat(manifest).catch((error: unknown) => {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw error;
    }),
  );
  if (status === undefined) return;
  throw new CheckpointError(
    'MTL_CHECKPOINT_DIRECTORY',
    `${directory} is a checkpoint, not a directory of checkpoints`,
    {
      expected: dirname(resolve(directory)),
      remedy: 'pass that directory, and the iteration as the step',
      details: { directory },
      exitCode: 2,
    },
  );
}

/** Returns the words that follow the name of the tracker file in a message. */
function whatIsIn(tracker: Exclude<Tracker, { kind: 'none' }>): string {
  return tracker.kind === 'iteration' ? `names ${tracker.iteration}` : tracker.why;
}

/**
 * Reports the reason if the chosen checkpoint is not the checkpoint in the tracker file, or not the last
 * saved checkpoint.
 */
function noticeTracker(options: {
  readonly checkpoint: Checkpoint;
  readonly tracker: Tracker;
  readonly newest: Checkpoint;
  readonly onNotice: (notice: string) => void;
}): void {
  const { checkpoint, tracker, newest, onNotice } = options;
  const named = tracker.kind === 'iteration' ? tracker.iteration : undefined;
  if (tracker.kind === 'none') {
    onNotice(`${trackerName} not found: using the last saved whole checkpoint, ${checkpoint.path}`);
  } else if (named !== checkpoint.iteration) {
    onNotice(`${trackerName} ${whatIsIn(tracker)}, which cannot be used: using ${checkpoint.path}`);
  } else if (newest.iteration !== checkpoint.iteration) {
    onNotice(
      `using ${checkpoint.path}, which ${trackerName} names; ${newest.path} was saved later and is not used`,
    );
  }
}

function noSuchStep(options: {
  readonly directory: string;
  readonly step: number;
  readonly known: readonly number[];
}): MtlError {
  const { directory, step, known } = options;
  return new CheckpointError('MTL_CHECKPOINT_STEP', `${directory} has no checkpoint of iteration ${step}`, {
    expected: known.length === 0 ? 'a directory with checkpoints' : `one of ${known.join(', ')}`,
    details: { directory, step, known },
    exitCode: 2,
  });
}

async function findStep(options: {
  readonly directory: string;
  readonly step: number;
  readonly listing: CheckpointListing;
  readonly load: ChooseTensors | undefined;
}): Promise<FoundCheckpoint> {
  const { step, listing, load } = options;
  const defect = listing.skipped.find(({ iteration }) => iteration === step)?.defect;
  if (defect !== undefined) throw defect;
  const candidate = listing.checkpoints.find(({ iteration }) => iteration === step);
  if (candidate === undefined) {
    const known = listing.checkpoints.map(({ iteration }) => iteration).sort((a, b) => a - b);
    throw noSuchStep({ ...options, known });
  }
  const tensors = await chooseTensors(candidate, load);
  await check(candidate, tensors);
  const checkpoint = new Checkpoint({ path: candidate.path, manifest: candidate.manifest, verified: true });
  return { kind: 'found', checkpoint, isLoaded: tensors !== undefined, skipped: [] };
}
