import { readSavedConfiguration } from '@mtl/configuration';
import { CheckpointError } from '@mtl/errors';
import { checkOptions, type OptionChecks, required, textOption } from '@mtl/errors/options';
import { writeLoraDirectory } from '@mtl/formats';
import { nameOfBaseModel } from '../../parts/models/name-of-base-model.js';
import { checkSavedWeights } from '../checkpoints/check-saved.js';
import { openSavedCheckpoint } from '../checkpoints/open-saved-checkpoint.js';
import { savedWeights } from '../checkpoints/saved-weights.js';
import { type CheckpointSource, checkpointSourceChecks } from '../conversion/model-source.js';
import { noticesOption } from '../option-checks.js';

/** A checkpoint of a run with --lora-rank. */
interface CheckpointToLoraOptions extends CheckpointSource {
  /** The directory to write, which must be new or empty. */
  readonly directory: string;
  readonly onNotice: (notice: string) => void;
}

const checks: OptionChecks<CheckpointToLoraOptions> = {
  ...checkpointSourceChecks,
  directory: required(textOption),
  onNotice: required(noticesOption),
};

/**
 * Writes the low-rank adapters of a checkpoint in PEFT's format. The checkpoint may have been saved with any
 * layout.
 *
 * @returns the path of the checkpoint
 * @throws ConfigurationError MTL_OPTION; CheckpointError MTL_CHECKPOINT_LORA for a checkpoint without
 *   adapters, MTL_CHECKPOINT_*, MTL_HUGGING_FACE_*
 */
export async function checkpointToLora(options: CheckpointToLoraOptions): Promise<string> {
  checkOptions(options, { of: 'checkpointToLora', checks });
  const { directory } = options;
  const { checkpoint, saved, lora } = await openSavedAdapters(options);
  const { model, flags } = saved;
  const tensors = savedWeights(checkpoint);
  const baseModel = nameOfBaseModel(flags?.['load-hf']);
  await writeLoraDirectory({ directory, model, lora, tensors, baseModel });
  return checkpoint.path;
}

/**
 * Opens a GPT checkpoint with low-rank adapters.
 *
 * @throws CheckpointError MTL_CHECKPOINT_LORA for a checkpoint without adapters, MTL_CHECKPOINT_*
 */
export async function openSavedAdapters(options: {
  readonly load: string;
  readonly checkpointStep?: number | undefined;
  readonly onNotice: (notice: string) => void;
}) {
  const { checkpoint, configuration, place } = await openSavedCheckpoint(options);
  const { path } = checkpoint;
  const saved = readSavedConfiguration('gpt', configuration, place);
  const { lora } = saved;
  if (lora === undefined) {
    throw new CheckpointError('MTL_CHECKPOINT_LORA', `${path} has no adapters`, {
      expected: 'a checkpoint of a run with --lora-rank',
      remedy: 'write its weights with --save-hf DIR',
      exitCode: 2,
    });
  }
  checkSavedWeights(checkpoint, saved);
  return { checkpoint, saved, lora };
}
