import { type Checkpoint, hostTensor, type LogicalTensor, loadCheckpoint } from '@mtl/checkpoint';
import { copyBox, dtypeBytes } from '@mtl/checkpoint/internal';
import { CheckpointError } from '@mtl/errors';
import { type LoraConfiguration, loraSpecificationOf, mergedWeights, readLoraDirectory } from '@mtl/formats';
import { isAdapter } from '@mtl/formats/internal';
import { sizeOf } from '@mtl/kernels';
import type { GptModelConfiguration } from '@mtl/models';
import { gptParameters } from '@mtl/models/internal';
import { isOptimizerTensor } from '@mtl/trainer/internal';
import { checkSavedWeights } from './check-saved.js';

/** Returns the whole weights in a checkpoint, whatever layout saved it, each read when its turn comes. */
export function savedWeights(checkpoint: Checkpoint): LogicalTensor[] {
  return [...checkpoint.tensors.values()]
    .filter(({ name }) => !isOptimizerTensor(name))
    .map(({ name, dtype, globalShape }) =>
      readThrough({ name, dtype, globalShape }, (tensors) =>
        loadCheckpoint({ checkpoint, tensors, ignore: () => true }),
      ),
    );
}

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

/** Fills float32 tensors by their logical names. */
interface TensorLoader {
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

/**
 * Returns the weights of a model with the low-rank adapters of a directory merged: whole, in float32, each
 * loaded when it is read.
 *
 * @param directory adapters of the model, as PEFT saves them
 * @throws CheckpointError MTL_LORA_DIRECTORY, and when a tensor is read MTL_HUGGING_FACE_WEIGHTS,
 *   MTL_SAFETENSORS_*; ConfigurationError MTL_LORA_TARGETS
 */
export async function weightsWithAdapters(
  base: TensorLoader & { readonly model: GptModelConfiguration },
  directory: string,
): Promise<LogicalTensor[]> {
  const { model } = base;
  const adapters = await readLoraDirectory({ directory, model });
  const { configuration: lora } = adapters;
  const tensors = gptParameters(model, { lora: loraSpecificationOf(lora, model) }).map(
    ({ name, globalShape }) =>
      readThrough({ name, dtype: 'F32', globalShape }, (wanted) =>
        (isAdapter(name) ? adapters : base).load(wanted),
      ),
  );
  return mergedWeights(tensors, { model, lora });
}

/** Returns a whole tensor that is loaded when it is read. */
function readThrough(
  tensor: Pick<LogicalTensor, 'name' | 'dtype' | 'globalShape'>,
  load: (tensors: readonly LogicalTensor[]) => Promise<unknown>,
): LogicalTensor {
  const readInto = async (memory: Uint8Array): Promise<void> => {
    await load([hostTensor({ ...tensor, memory })]);
  };
  const read = async (): Promise<Uint8Array> => {
    const memory = new Uint8Array(sizeOf(tensor.globalShape) * dtypeBytes[tensor.dtype]);
    await readInto(memory);
    return memory;
  };
  const slices = tensor.globalShape.map((end) => ({ start: 0, end }));
  return { ...tensor, slices, read, readInto, write: () => {} };
}

/**
 * Fills tensors, any slices of them, from whole ones of the same names that are read for it. Memory: the
 * largest tensor, and its box.
 *
 * @param options.path where the whole ones come from, for messages
 * @throws CheckpointError MTL_CHECKPOINT_MISMATCH for a tensor that is not among them
 */
export async function fillTensors(
  tensors: readonly LogicalTensor[],
  options: { readonly from: readonly LogicalTensor[]; readonly path: string },
): Promise<void> {
  const byName = new Map(options.from.map((tensor) => [tensor.name, tensor]));
  for (const tensor of tensors) {
    const whole = byName.get(tensor.name);
    const { globalShape, dtype, slices } = tensor;
    if (whole?.dtype !== dtype || whole.globalShape.join() !== globalShape.join()) {
      throw new CheckpointError(
        'MTL_CHECKPOINT_MISMATCH',
        `${options.path} has no ${tensor.name} of ${dtype} [${globalShape.join(', ')}]`,
        { expected: 'the model that its manifest describes' },
      );
    }
    await tensor.write(copyBox({ source: await whole.read(), dtype, globalShape, slices }));
  }
}
