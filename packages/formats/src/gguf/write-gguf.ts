import type { LogicalTensor, TensorSource } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { GptModelConfiguration } from '@mtl/models';
import { decodeFloats } from '../huggingface/float-bytes.js';
import type { HuggingFaceOrigin } from '../huggingface/huggingface-origin.js';
import { mappedWeightSources } from '../huggingface/mapped-weights.js';
import type { GptTypeName } from '../huggingface/model-types.js';
import { gptTypeOf, unstatedProperties } from '../huggingface/statable-models.js';
import { architectureMetadata, architectureOf, checkArchitecture } from './architectures.js';
import { type Metadata, text, uint32 } from './metadata.js';
import { frequencyDivisors } from './rope-metadata.js';
import {
  type GgufDtype,
  ggufDtypes,
  isQuantized,
  replacedTypesNotice,
  storedType,
  type TypedModel,
} from './stored-dtypes.js';
import type { TokenizerFiles } from './tokenizer/tokenizer-files.js';
import { tokenizerMetadata } from './tokenizer/tokenizer-metadata.js';
import { ggufWeightNames } from './weight-names.js';
import { type GgufTensorSource, writeGgufFile } from './write-gguf-file.js';

/** A GPT and the GGUF file to write. */
export interface WriteGgufOptions {
  /** The path of a new file. It is written atomically, by one rename. */
  readonly path: string;
  readonly model: GptModelConfiguration;
  /** All tensors of the model, complete. They are read one by one. */
  readonly tensors: readonly LogicalTensor[];
  /** Dtype in which matrices are stored; vectors are float32. Default float32. */
  readonly dtype?: GgufDtype;
  /** tokenizer.json and others, as for `writeHuggingFaceGpt`. */
  readonly tokenizerFiles: TokenizerFiles;
  /** Tokens that end a text; the second ends a turn of a conversation. */
  readonly endTokens?: readonly number[];
  /** The fields of the directory that the model was read from: its model type and its name. */
  readonly origin?: HuggingFaceOrigin | undefined;
  /** Name of the model in the file. Default: left out. */
  readonly name?: string | undefined;
}

function typeOf({ model, origin }: WriteGgufOptions): GptTypeName {
  const type = gptTypeOf(model, origin?.config.model_type as string | undefined);
  if (type !== undefined) return type;
  const { nearest, properties } = unstatedProperties(model);
  throw new CheckpointError(
    'MTL_GGUF_ARCHITECTURE',
    `GGUF: no architecture that is written here has these blocks: ${nearest.name} lacks ${properties.join(', ')}`,
    {
      expected:
        "a GPT with a GPT-2's, Llama's, Mistral's, Qwen2's, Qwen3's, Mixtral's, Qwen3-MoE's, Qwen2-MoE's or OLMoE's blocks",
      remedy: 'train a model with the blocks of one of them',
      exitCode: 2,
    },
  );
}

/** Returns a tensor of the file, given its source in float32. */
function tensorOf(source: TensorSource, dtype: GgufDtype, model: TypedModel): GgufTensorSource {
  const { name, shape } = source;
  return {
    name,
    shape,
    type: storedType({ name, shape }, dtype, model),
    async *read() {
      yield decodeFloats(await source.read(), 'F32');
    },
  };
}

function generalMetadata(
  architecture: string,
  { dtype = 'float32', name, origin }: WriteGgufOptions,
): Metadata {
  const license = origin?.config.license;
  return {
    'general.architecture': text(architecture),
    'general.type': text('model'),
    ...(name === undefined ? {} : { 'general.name': text(name) }),
    ...(typeof license === 'string' ? { 'general.license': text(license) } : {}),
    'general.file_type': uint32(ggufDtypes[dtype].fileType),
    ...(isQuantized(dtype) ? { 'general.quantization_version': uint32(2) } : {}),
  };
}

/**
 * Writes a GPT as a GGUF file, which llama.cpp and programs built on it read. The vocabulary's padding is
 * dropped. A model or a tokenizer that llama.cpp does not compute in the same way is refused, with the
 * difference by name.
 *
 * @returns notices for the user
 * @throws CheckpointError MTL_GGUF_ARCHITECTURE, MTL_GGUF_TOKENIZER, MTL_GGUF_EXISTS, MTL_GGUF_IO,
 *   MTL_NOT_FINITE, MTL_CHECKPOINT_*
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is missing, unknown or only a slice
 */
export async function writeGguf(options: WriteGgufOptions): Promise<readonly string[]> {
  const { path, model, tensors, dtype = 'float32', tokenizerFiles, endTokens = [] } = options;
  const modelType = typeOf(options);
  checkArchitecture(modelType, model);
  const { vocabularySize } = model;
  const tokenizer = tokenizerMetadata({ files: tokenizerFiles, vocabularySize, endTokens });
  const typed: TypedModel = { ...model, tieEmbeddings: model.tieEmbeddings };
  const sources = mappedWeightSources({
    names: ggufWeightNames(modelType, model),
    tensors,
    dtype: 'F32',
    fileName: (name) => name,
  });
  const written = sources.map((source) => tensorOf(source, dtype, typed));
  const notice = replacedTypesNotice(written, dtype, typed);
  await writeGgufFile({
    path,
    metadata: {
      ...generalMetadata(architectureOf(modelType).name, options),
      ...architectureMetadata(modelType, model),
      ...tokenizer.metadata,
    },
    tensors: [...frequencyTensors(model), ...written],
  });
  return [...tokenizer.notices, ...(notice === undefined ? [] : [notice])];
}

/** Returns the tensor with the divisors of frequencies, if the model has any. */
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
