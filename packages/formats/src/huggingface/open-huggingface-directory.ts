import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type LogicalTensor, SafetensorsDirectory } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import { downloadAdvice } from './download-advice.js';
import { JsonFields } from './json-fields.js';
import { MappedWeights } from './load-mapped-weights.js';
import type { WeightNames } from './mapped-weights.js';
import { findModelType, type HuggingFaceModelKind } from './model-types.js';
import { tokenizerFilesIn } from './tokenizer-files-in.js';
import { checkSupported } from './unsupported-features.js';

/** A model directory of the transformers library, apart from its weights. */
interface HuggingFaceDirectory {
  readonly directory: string;
  /** config.json */
  readonly fields: JsonFields;
  /**
   * The dtype that config.json names (`float32`, `bfloat16` ...), if it names one. Weights may have another
   * dtype, which their files state.
   */
  readonly dtype: string | undefined;
  /** The tokenizer's files in the directory: name to path. */
  readonly tokenizerFiles: Readonly<Record<string, string>>;
}

/**
 * Reads config.json, generation_config.json and the names of the tokenizer's files.
 *
 * @throws CheckpointError
 * MTL_HUGGING_FACE_CONFIG when config.json is missing or broken, and of `tokenizerFilesIn`
 */
export async function openHuggingFaceDirectory(directory: string): Promise<HuggingFaceDirectory> {
  const fields = await JsonFields.read(join(directory, 'config.json'));
  if (fields === undefined) {
    const isThere = existsSync(directory);
    const problem = isThere ? 'holds no config.json' : 'not found';
    throw new CheckpointError('MTL_HUGGING_FACE_CONFIG', `${directory} ${problem}`, {
      expected: 'a directory with config.json and model.safetensors',
      remedy: isThere
        ? 'save the model with save_pretrained, or download all files of its repository'
        : downloadAdvice(directory),
      exitCode: 2,
    });
  }
  const dtypeName = 'dtype' in fields.values ? 'dtype' : 'torch_dtype';
  return {
    directory,
    fields,
    dtype: fields.optional<string | undefined>(dtypeName, 'a string', undefined),
    tokenizerFiles: tokenizerFilesIn(directory),
  };
}

/** The weights of a model whose files are open. The caller closes them. */
export interface OpenedWeights {
  /** Fills tensors; any tensors and slices of the model are valid. */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

interface NamedWeights {
  readonly directory: string;
  /** Names, or a function that returns the names for the tensors of the files. */
  readonly names: WeightNames | ((tensors: Iterable<string>) => WeightNames);
}

/**
 * Opens the weights of a directory, and checks their names, shapes and dtypes.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_*, MTL_SAFETENSORS_*
 */
export async function openHuggingFaceWeights({ directory, names }: NamedWeights): Promise<OpenedWeights> {
  const files = await SafetensorsDirectory.open(directory);
  const close = () => files.close();
  try {
    const weights = await MappedWeights.open({
      weights: files,
      names: typeof names === 'function' ? names(files.tensors.keys()) : names,
    });
    return { load: (tensors) => weights.load(tensors), close, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Fills tensors from the weights of a directory.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_*, MTL_SAFETENSORS_*
 */
export async function loadHuggingFaceWeights(
  options: NamedWeights & { readonly tensors: readonly LogicalTensor[] },
): Promise<void> {
  await using weights = await openHuggingFaceWeights(options);
  await weights.load(options.tensors);
}

/**
 * Returns the kind of the model in a directory of the transformers library, by its type in config.json.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG when config.json is missing or broken, or describes a model
 *   that is not supported, with the missing feature
 */
export async function huggingFaceModelKind(directory: string): Promise<HuggingFaceModelKind> {
  const { fields } = await openHuggingFaceDirectory(directory);
  checkSupported(fields);
  // `model_type` was checked above
  return findModelType(fields.required('model_type', 'a string'))!.kind;
}
