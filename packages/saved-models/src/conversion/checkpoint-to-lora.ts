import { readSavedConfiguration } from '@mtl/configuration';
import { CheckpointError } from '@mtl/errors';
import { writeLoraDirectory } from '@mtl/formats';
import { checkSavedWeights } from '../checkpoints/check-saved-weights.js';
import { openSavedCheckpoint } from '../checkpoints/open-saved-checkpoint.js';
import { savedWeights } from '../checkpoints/saved-weights.js';

export interface CheckpointToLoraOptions {
  /** A directory of checkpoints of a run with --lora-rank. */
  readonly load: string;
  /** The iteration; default the newest whole checkpoint. */
  readonly checkpointStep?: number | undefined;
  /** New or empty. */
  readonly directory: string;
  readonly onNotice: (notice: string) => void;
}

/**
 * Writes the low-rank adapters of a checkpoint, whatever layout saved it, as PEFT loads them.
 *
 * @returns the path of the checkpoint
 * @throws CheckpointError MTL_CHECKPOINT_LORA for a checkpoint without adapters, MTL_CHECKPOINT_*,
 *   MTL_HUGGING_FACE_*
 */
export async function checkpointToLora(options: CheckpointToLoraOptions): Promise<string> {
  const { directory } = options;
  const { checkpoint, configuration, place } = await openSavedCheckpoint(options);
  const { path } = checkpoint;
  const saved = readSavedConfiguration('gpt', configuration, place);
  const { model, lora, flags } = saved;
  if (lora === undefined) {
    throw new CheckpointError('MTL_CHECKPOINT_LORA', `${path} has no adapters`, {
      expected: 'a checkpoint of a run with --lora-rank',
      remedy: 'write its weights with --save-hf DIR',
      exitCode: 2,
    });
  }
  checkSavedWeights(checkpoint, saved);
  const tensors = savedWeights(checkpoint);
  await writeLoraDirectory({ directory, model, lora, tensors, baseModel: flags?.['load-hf'] });
  return path;
}
