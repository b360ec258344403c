import { type Checkpoint, copyBox, type LogicalTensor } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import { type GptModelConfiguration, type LoraConfiguration, mergedWeights } from '@mtl/models';
import { savedWeights } from './saved-weights.js';

/**
 * Fills float32 tensors of a model, any slices of them, from a checkpoint with low-rank adapters, which are
 * merged on the way. Memory: the largest tensor, three times.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MISMATCH for a tensor that the checkpoint does not have
 */
export async function loadMerged(
  checkpoint: Checkpoint,
  options: {
    readonly tensors: readonly LogicalTensor[];
    readonly model: GptModelConfiguration;
    readonly lora: LoraConfiguration;
  },
): Promise<void> {
  const merged = new Map(
    mergedWeights(savedWeights(checkpoint), options).map((tensor) => [tensor.name, tensor]),
  );
  for (const tensor of options.tensors) {
    const whole = merged.get(tensor.name);
    const { globalShape, dtype, slices } = tensor;
    if (whole?.dtype !== dtype || whole.globalShape.join() !== globalShape.join()) {
      throw new CheckpointError(
        'MTL_CHECKPOINT_MISMATCH',
        `${checkpoint.path} has no ${tensor.name} of ${dtype} [${globalShape.join(', ')}]`,
        { expected: 'the model that its manifest describes' },
      );
    }
    await tensor.write(copyBox({ source: await whole.read(), dtype, globalShape, slices }));
  }
}
