import { dirname } from 'node:path';
import type { Checkpoint } from '@mtl/checkpoint';
import { checkSameArchitecture, type KindOfModel, readSavedConfiguration } from '@mtl/configuration';
import { readTrainingState } from '@mtl/trainer';
import { checkSavedSizes } from './check-saved-sizes.js';

/**
 * Refuses a checkpoint of another model than the one to be trained, in the words of its flags. What else can
 * differ shows when its tensors are loaded.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MODEL; MTL_CHECKPOINT_STATE when it holds a model of another kind
 */
export function checkSameModel(checkpoint: Checkpoint, { kind, model: built }: KindOfModel): void {
  const { path, state } = checkpoint;
  const { configuration } = readTrainingState(state, path);
  checkSavedSizes(checkpoint);
  const { model: saved } = readSavedConfiguration(kind, configuration, { directory: dirname(path), path });
  checkSameArchitecture({ kind, saved, built, path });
}
