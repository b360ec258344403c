import type { LogicalTensor } from '@mtl/checkpoint';
import type { GptModelConfiguration } from '@mtl/models';
import type { HuggingFaceOrigin } from '../huggingface/huggingface-origin.js';
import {
  architectureMetadata,
  checkArchitecture,
  describeTypedModel,
  findArchitecture,
  modelTypeFor,
} from './architectures.js';
import { generalMetadata } from './general-metadata.js';
import { frequencyDivisors } from './rope-metadata.js';
import { type GgufDtype, replacedTypesNotice, storedType } from './stored-dtypes.js';
import { tensorSources } from './tensor-sources.js';
import type { TokenizerFiles } from './tokenizer/tokenizer-files.js';
import { tokenizerMetadata } from './tokenizer/tokenizer-metadata.js';
import { ggufWeightNames } from './weight-names.js';
import { type GgufTensorSource, writeGgufFile } from './write-gguf-file.js';

/** The GPT to write, and options for the GGUF file. */
export interface WriteGgufOptions {
  /** The output path, which must not exist. The file appears atomically, with one rename. */
  readonly path: string;
  readonly model: GptModelConfiguration;
  /** All of the model's tensors, each complete. They are read one by one. */
  readonly tensors: readonly LogicalTensor[];
  /** The dtype of the matrices in the file; vectors are always float32. Default: float32. */
  readonly dtype?: GgufDtype;
  /** tokenizer.json and the tokenizer's other files, as for `writeHuggingFaceGpt`. */
  readonly tokenizerFiles: TokenizerFiles;
  /** Token ids: the first ends a text, the second ends a turn of a conversation. */
  readonly endTokens?: readonly number[];
  /**
   * The config.json fields of the directory from which the model was read. Only the model type and the name
   * are used.
   */
  readonly origin?: HuggingFaceOrigin | undefined;
  /** The model's name in the file. Default: no name. */
  readonly name?: string | undefined;
}

/**
 * Writes a GPT as a GGUF file, the format of llama.cpp and of programs built on it. The vocabulary's padding
 * is dropped. If llama.cpp would compute the model or the tokenizer differently, an error names the
 * difference.
 *
 * @returns notices for the user
 * @throws CheckpointError MTL_GGUF_ARCHITECTURE, MTL_GGUF_TOKENIZER, MTL_GGUF_EXISTS, MTL_GGUF_IO,
 *   MTL_NOT_FINITE, MTL_CHECKPOINT_*
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is missing, unknown or only a slice
 */
export async function writeGguf(options: WriteGgufOptions): Promise<readonly string[]> {
  const { path, model, tensors, dtype = 'float32', tokenizerFiles, endTokens = [] } = options;
  const modelType = modelTypeFor(model, options.origin);
  checkArchitecture(modelType, model);
  const { vocabularySize } = model;
  const tokenizer = tokenizerMetadata({ files: tokenizerFiles, vocabularySize, endTokens });
  const typed = describeTypedModel(modelType, model);
  const written = tensorSources({
    names: ggufWeightNames(modelType, model),
    tensors,
    chooseType: (tensor) => storedType(tensor, dtype, typed),
  });
  const notice = replacedTypesNotice(written, dtype, typed);
  await writeGgufFile({
    path,
    metadata: {
      ...generalMetadata(findArchitecture(modelType, model).name, options),
      ...architectureMetadata(modelType, model),
      ...tokenizer.metadata,
    },
    tensors: [...frequencyTensors(model), ...written],
  });
  return [...tokenizer.notices, ...(notice === undefined ? [] : [notice])];
}

/** Returns the tensor of frequency divisors, or an empty list if the model has none. */
function frequencyTensors(model: GptModelConfiguration): readonly GgufTensorSource[] {
  const divisors = frequencyDivisors(model);
  if (divisors === undefined) return [];
  const [name, shape] = ['rope_freqs.weight', [divisors.length]];
  return [
    {
      name,
      shape,
      type: 'F32',
      async *read() {
        yield divisors;
      },
    },
  ];
}
