import { readAnySavedConfiguration } from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';
import { mergedWeights, type WritableDtype, writeMegatron } from '@mtl/formats';
import type { BertModelConfiguration, GptModelConfiguration } from '@mtl/models';
import { readTrainingState } from '@mtl/trainer';
import { checkSavedWeights } from '../checkpoints/check-saved-weights.js';
import { openSavedCheckpoint } from '../checkpoints/open-saved-checkpoint.js';
import { savedWeights } from '../checkpoints/saved-weights.js';

/**
 * Writes the weights of a checkpoint, whatever layout saved it, as a checkpoint of Megatron-LM in the format
 * `torch_dist`; low-rank adapters are merged into them. Tensors are read as their turn comes; the whole model
 * is never in memory.
 *
 * @returns the path of the checkpoint, and of the written one
 * @throws ConfigurationError MTL_FINE_TUNING_CONVERT; CheckpointError MTL_CHECKPOINT_*,
 *   MTL_MEGATRON_CHECKPOINT
 */
export async function checkpointToMegatron(options: {
  /** A directory of checkpoints of a GPT or a BERT. */
  readonly load: string;
  /** The iteration. Default: the newest whole checkpoint. */
  readonly checkpointStep?: number | undefined;
  /** New or empty. */
  readonly directory: string;
  /** What weights are stored as. Default F32. */
  readonly dtype?: WritableDtype | undefined;
  readonly onNotice: (notice: string) => void;
}): Promise<{ readonly path: string; readonly written: string }> {
  const { directory, dtype } = options;
  const { checkpoint, configuration, place } = await openSavedCheckpoint(options);
  const { path } = checkpoint;
  if ('fineTuning' in configuration) {
    throw new ConfigurationError('MTL_FINE_TUNING_CONVERT', `${path} is of a fine-tuning`, {
      expected: 'a checkpoint of a pretraining',
    });
  }
  const saved = readAnySavedConfiguration(configuration, place);
  checkSavedWeights(checkpoint, saved);
  const { kind, model, lora } = saved;
  const { progress } = readTrainingState(checkpoint.state, path);
  const weights = savedWeights(checkpoint);
  const written = await writeMegatron({
    directory,
    kind,
    dtype,
    model: model as GptModelConfiguration | BertModelConfiguration,
    tensors: lora ? mergedWeights(weights, { model: model as GptModelConfiguration, lora }) : weights,
    iteration: progress.iteration,
    consumedSamples: progress.consumedSamples,
  });
  return { path, written };
}
