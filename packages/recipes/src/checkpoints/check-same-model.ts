import { dirname } from 'node:path';
import type { Checkpoint } from '@mtl/checkpoint';
import { architectureFlags, type KindOfModel, readSavedTraining, weightFlagNames } from '@mtl/configuration';
import { CheckpointError } from '@mtl/errors';
import { readTrainingState } from '@mtl/trainer';
import { checkSavedSizes } from './check-saved-sizes.js';

/**
 * Refuses a checkpoint of another model than the one to be trained, in the words of its flags. What else can
 * differ shows when its tensors are loaded.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MODEL; MTL_CHECKPOINT_STATE when it holds a model of another kind
 */
export function checkSameModel(checkpoint: Checkpoint, { kind, model }: KindOfModel): void {
  const { path, state } = checkpoint;
  const { configuration } = readTrainingState(state, path);
  checkSavedSizes(checkpoint);
  const place = { directory: dirname(path), path };
  const saved = architectureFlags({ kind, model: readSavedTraining(kind, configuration, place).model });
  const built = architectureFlags({ kind, model });
  const differing = weightFlagNames.flatMap((name) => {
    const [there, here] = [saved[name], built[name]];
    return there === here ? [] : [{ there: `--${name} ${there}`, here: `--${name} ${here}` }];
  });
  if (differing.length === 0) return;
  const listed = (which: 'there' | 'here') => differing.map((one) => one[which]).join(' ');
  throw new CheckpointError(
    'MTL_CHECKPOINT_MODEL',
    `${path} holds a model of ${listed('there')}, and this one has ${listed('here')}`,
    {
      expected: 'the model that was saved',
      remedy: `pass ${listed('there')}, or leave those flags out: --load has them; the other model is trained without --load`,
      exitCode: 2,
    },
  );
}
