import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Checkpoint, findCheckpoint, type JsonObject } from '@mtl/checkpoint';
import type { CheckpointPlace } from '@mtl/configuration/saved';
import { CheckpointError, changedError, MtlError } from '@mtl/errors';
import { readTrainingState } from '@mtl/trainer';
import { checkSavedSizes } from './check-saved.js';

/** A checkpoint, with the configuration of its training run. */
export interface SavedCheckpoint {
  readonly checkpoint: Checkpoint;
  readonly configuration: JsonObject;
  readonly place: CheckpointPlace;
}

/**
 * Returns the checkpoint selected by --load and --ckpt-step, for commands that do not train. Checkpoint
 * errors have status 2, wrong input, because no training run is interrupted.
 *
 * @param options.checkpointStep the iteration of the checkpoint. Default: the newest complete checkpoint
 * @throws CheckpointError MTL_CHECKPOINT_*, status 2
 */
export async function openSavedCheckpoint(options: {
  readonly load: string;
  readonly checkpointStep?: number | undefined;
  readonly onNotice: (notice: string) => void;
}): Promise<SavedCheckpoint> {
  const { load: directory, checkpointStep, onNotice } = options;
  const step = checkpointStep === undefined ? {} : { step: checkpointStep };
  const found = await findCheckpoint({ directory, ...step, onNotice }).catch(refuseInput);
  if (found.kind === 'none') {
    const isHuggingFace = existsSync(join(directory, 'config.json'));
    throw new CheckpointError('MTL_CHECKPOINT_NONE', `--load ${directory}: there is no checkpoint`, {
      expected: 'a directory that --save wrote',
      ...(isHuggingFace ? { remedy: 'pass it with --load-hf' } : {}),
      exitCode: 2,
    });
  }
  const { checkpoint } = found;
  const { path, state } = checkpoint;
  const { configuration } = readTrainingState(state, path);
  checkSavedSizes(checkpoint);
  return { checkpoint, configuration, place: { directory: dirname(path), path } };
}

function refuseInput(error: unknown): never {
  throw MtlError.isInstance(error) ? changedError(error, { exitCode: 2 }) : error;
}
