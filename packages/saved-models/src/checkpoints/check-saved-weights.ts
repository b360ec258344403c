import type { Checkpoint } from '@mtl/checkpoint';
import type { SavedConfiguration } from '@mtl/configuration';
import { CheckpointError } from '@mtl/errors';
import { modelParameters } from '@mtl/models';
import { loraOf } from '@mtl/run-parts/internal';

/**
 * Refuses a checkpoint without a weight or a low-rank adapter of the model that it describes, before anything
 * is read or written: another program saved it, or another version.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MISMATCH, status 2
 */
export function checkSavedWeights(
  { path, tensors }: Pick<Checkpoint, 'path' | 'tensors'>,
  { kind, model, lora }: Pick<SavedConfiguration, 'kind' | 'model' | 'lora'>,
): void {
  for (const { name, globalShape } of modelParameters({ kind, model, lora: loraOf({ lora }, model) })) {
    const found = tensors.get(name);
    if (found?.globalShape.join() === globalShape.join()) continue;
    const problem =
      found === undefined ? `has no ${name}` : `has ${name} of the shape [${found.globalShape.join(', ')}]`;
    throw new CheckpointError('MTL_CHECKPOINT_MISMATCH', `${path} ${problem}`, {
      expected: `[${globalShape.join(', ')}], as the model in its manifest has it`,
      remedy: 'load another checkpoint of the run',
      exitCode: 2,
    });
  }
}
