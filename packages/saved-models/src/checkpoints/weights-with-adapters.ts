import { dtypeBytes, hostTensor, type LogicalTensor } from '@mtl/checkpoint';
import { isAdapter, loraSpecificationOf, mergedWeights, readLoraDirectory } from '@mtl/formats';
import { sizeOf } from '@mtl/kernels';
import { type GptModelConfiguration, gptParameters } from '@mtl/models';

/** Fills float32 tensors by their logical names. */
interface TensorLoader {
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

/**
 * The weights of a model with the low-rank adapters of a directory merged: whole, in float32, each loaded
 * when it is read.
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
    ({ name, globalShape }) => readThrough({ name, globalShape }, isAdapter(name) ? adapters : base),
  );
  return mergedWeights(tensors, { model, lora });
}

/** A whole tensor in float32 that is loaded when it is read. */
function readThrough(
  tensor: Pick<LogicalTensor, 'name' | 'globalShape'>,
  source: TensorLoader,
): LogicalTensor {
  const dtype = 'F32';
  const read = async (): Promise<Uint8Array> => {
    const memory = new Uint8Array(sizeOf(tensor.globalShape) * dtypeBytes[dtype]);
    await source.load([hostTensor({ ...tensor, dtype, memory })]);
    return memory;
  };
  const slices = tensor.globalShape.map((end) => ({ start: 0, end }));
  return { ...tensor, dtype, slices, read, write: () => {} };
}
