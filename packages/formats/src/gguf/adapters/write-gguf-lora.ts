import type { LogicalTensor } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { GptModelConfiguration } from '@mtl/models';
import type { HuggingFaceOrigin } from '../../huggingface/huggingface-origin.js';
import { isAdapter, type LoraConfiguration } from '../../lora/lora-configuration.js';
import { specifyLora } from '../../lora/lora-modules.js';
import { checkArchitecture, findArchitecture, modelTypeFor } from '../architectures.js';
import { float32, text, uint32 } from '../metadata.js';
import { tensorSources } from '../tensor-sources.js';
import { writeGgufFile } from '../write-gguf-file.js';
import { ggufLoraNames } from './lora-weight-names.js';

/** The adapters to write, and options for the GGUF file. */
export interface WriteGgufLoraOptions {
  /** The output path, which must not exist. The file appears atomically, with one rename. */
  readonly path: string;
  readonly model: GptModelConfiguration;
  readonly lora: LoraConfiguration;
  /** The model's tensors, each complete. Only the adapters are written. */
  readonly tensors: readonly LogicalTensor[];
  /** The config.json fields of the model's original directory. Only the model type is used. */
  readonly origin?: HuggingFaceOrigin | undefined;
  /** The adapters' name in the file. Default: no name. */
  readonly name?: string | undefined;
}

/**
 * Writes low-rank adapters in float32 as a GGUF file, which llama.cpp loads together with the adapted model's
 * file.
 *
 * @throws CheckpointError MTL_GGUF_ARCHITECTURE for a model that llama.cpp computes differently,
 *   MTL_GGUF_EXISTS, MTL_GGUF_IO, MTL_NOT_FINITE, MTL_CHECKPOINT_*
 */
export async function writeGgufLora(options: WriteGgufLoraOptions): Promise<void> {
  const { path, model, lora, tensors, origin, name } = options;
  const modelType = modelTypeFor(model, origin);
  checkArchitecture(modelType, model);
  // llama.cpp treats an alpha of 0 as a missing alpha
  if (lora.alpha === 0) {
    throw new CheckpointError(
      'MTL_GGUF_ARCHITECTURE',
      'GGUF: llama.cpp does not compute adapters with an alpha of 0',
      {
        remedy: 'write the model without adapters: they change nothing',
        exitCode: 2,
      },
    );
  }
  const { scale } = specifyLora(lora, model);
  await writeGgufFile({
    path,
    metadata: {
      'general.architecture': text(findArchitecture(modelType, model).name),
      'general.type': text('adapter'),
      ...(name === undefined ? {} : { 'general.name': text(name) }),
      'general.file_type': uint32(0),
      'adapter.type': text('lora'),
      // llama.cpp scales by alpha / rank
      'adapter.lora.alpha': float32(scale * lora.rank),
    },
    tensors: tensorSources({
      names: ggufLoraNames(modelType, model, lora),
      tensors: tensors.filter((tensor) => isAdapter(tensor.name)),
      chooseType: () => 'F32',
    }),
  });
}
