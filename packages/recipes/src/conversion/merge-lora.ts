import { dtypeBytes, hostTensor, type LogicalTensor } from '@mtl/checkpoint';
import { sizeOf } from '@mtl/kernels';
import {
  type GptModelConfiguration,
  gptParameters,
  isAdapter,
  loraSpecificationOf,
  mergedWeights,
  readHuggingFaceGpt,
  readLoraDirectory,
  type WritableDtype,
  writeHuggingFaceGpt,
} from '@mtl/models';
import { dtypeOfOrigin } from './dtype-of-origin.js';

export interface MergeLoraOptions {
  /** A directory of the transformers library with a GPT-2, a Llama or a model after it. */
  readonly loadHuggingFace: string;
  /** Adapters of it, as PEFT saves them. */
  readonly loadLora: string;
  /** New or empty. */
  readonly directory: string;
  /** What weights are stored as. Default: as in the model's directory. */
  readonly dtype?: WritableDtype | undefined;
  readonly onNotice: (notice: string) => void;
}

/**
 * Writes a model with what its low-rank adapters add to its weights, tokenizer included. One tensor at a time
 * is in memory, with its adapters.
 *
 * @returns what weights are stored as
 * @throws CheckpointError MTL_HUGGING_FACE_*, MTL_LORA_DIRECTORY, MTL_SAFETENSORS_*
 */
export async function mergeLora(options: MergeLoraOptions): Promise<WritableDtype> {
  const { loadHuggingFace, loadLora, directory, onNotice } = options;
  const base = await readHuggingFaceGpt({ directory: loadHuggingFace });
  for (const notice of base.notices) onNotice(notice);
  const model: GptModelConfiguration = base.configuration;
  const adapters = await readLoraDirectory({ directory: loadLora, model });
  const { configuration: lora } = adapters;
  const parameters = gptParameters(model, { lora: loraSpecificationOf(lora, model) });
  const tensors = parameters.map(({ name, globalShape }) =>
    readThrough({ name, globalShape }, isAdapter(name) ? adapters : base),
  );
  const dtype = options.dtype ?? dtypeOfOrigin(base.origin);
  await writeHuggingFaceGpt({
    directory,
    model,
    dtype,
    endTokens: base.endTokens,
    origin: base.origin,
    tensors: mergedWeights(tensors, { model, lora }),
    tokenizerFiles: base.tokenizerFiles,
  });
  return dtype;
}

/** A whole tensor in float32 that is loaded when it is read. */
function readThrough(
  tensor: Pick<LogicalTensor, 'name' | 'globalShape'>,
  source: { load(tensors: readonly LogicalTensor[]): Promise<void> },
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
