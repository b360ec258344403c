import type { Checkpoint, LogicalTensor } from '@mtl/checkpoint';
import { type LoraConfiguration, mergedWeights } from '@mtl/formats';
import type { GptModelConfiguration } from '@mtl/models';
import { checkSavedWeights } from './check-saved-weights.js';
import { fillTensors } from './fill-tensors.js';
import { savedWeights } from './saved-weights.js';

/**
 * Fills float32 tensors of a model, any slices of them, from a checkpoint with low-rank adapters, which are
 * merged on the way. Memory: the largest tensor, three times.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MISMATCH for a tensor or an adapter that the checkpoint does not
 *   have
 */
export async function loadMerged(
  checkpoint: Checkpoint,
  options: {
    readonly tensors: readonly LogicalTensor[];
    readonly model: GptModelConfiguration;
    readonly lora: LoraConfiguration;
  },
): Promise<void> {
  checkSavedWeights(checkpoint, { kind: 'gpt', ...options });
  const from = mergedWeights(savedWeights(checkpoint), options);
  await fillTensors(options.tensors, { from, path: checkpoint.path });
}
