import type { Checkpoint, LogicalTensor } from '@mtl/checkpoint';
import {
  isAdapter,
  type LoraConfiguration,
  mergedWeights,
  readLoraDirectory,
  specifyLora,
} from '@mtl/formats';
import { type GptModelConfiguration, gptParameters } from '@mtl/models';
import { checkSavedWeights } from '../checkpoints/check-saved.js';
import { fillTensors, readThrough, savedWeights } from '../checkpoints/saved-weights.js';

/**
 * Fills float32 tensors of a model, or slices of its tensors, from a checkpoint with low-rank adapters, and
 * merges the adapters. Needs three times the memory of the largest tensor.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MISMATCH for a tensor or an adapter that is missing in the
 * checkpoint
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

/** Fills float32 tensors by their logical names. */
interface TensorLoader {
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

/**
 * Returns the weights of a model, merged with the low-rank adapters in a directory. The tensors are complete
 * and float32. A tensor is loaded when a caller reads it.
 *
 * @param directory the directory with the model's adapters, in PEFT's format
 * @throws CheckpointError MTL_LORA_DIRECTORY, and when a tensor is read, MTL_HUGGING_FACE_WEIGHTS,
 *   MTL_SAFETENSORS_*; ConfigurationError MTL_LORA_TARGETS
 */
export async function weightsWithAdapters(
  base: TensorLoader & { readonly model: GptModelConfiguration },
  directory: string,
): Promise<LogicalTensor[]> {
  const { model } = base;
  const adapters = await readLoraDirectory({ directory, model });
  const { configuration: lora } = adapters;
  const tensors = gptParameters(model, { lora: specifyLora(lora, model) }).map(({ name, globalShape }) =>
    readThrough({ name, dtype: 'F32', globalShape }, (wanted) =>
      (isAdapter(name) ? adapters : base).load(wanted),
    ),
  );
  return mergedWeights(tensors, { model, lora });
}
