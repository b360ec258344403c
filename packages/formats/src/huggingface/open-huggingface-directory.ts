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

/** The files of a transformers model directory, without its weights. */
interface HuggingFaceDirectory {
  readonly directory: string;
  /** The fields of config.json. */
  readonly fields: JsonFields;
  /**
   * The dtype that config.json names, such as `float32` or `bfloat16`, if any. The weights may be stored in a
   * different dtype.
   */
  readonly dtype: string | undefined;
  /** The paths of the tokenizer's files in the directory, by file name. */
  readonly tokenizerFiles: Readonly<Record<string, string>>;
}

/**
 * Reads config.json and finds the tokenizer's files.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG when config.json is missing or broken, and the errors of
 *   `tokenizerFilesIn`
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

/** A model's weights in open files. The caller closes them. */
export interface OpenedWeights {
  /** Fills the given tensors, or slices of tensors, with values from the files. */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

interface NamedWeights {
  readonly directory: string;
  /** The weight names, or a function that computes them from the tensor names in the files. */
  readonly names: WeightNames | ((tensors: Iterable<string>) => WeightNames);
}

/**
 * Opens a directory's weights, and checks their names, shapes and dtypes.
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
 * Fills the given tensors with a directory's weights.
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
 * Returns the kind of model that a transformers directory contains, according to its `model_type`.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG when config.json is missing or broken, or describes an
 *   unsupported model. The error names the missing feature
 */
export async function huggingFaceModelKind(directory: string): Promise<HuggingFaceModelKind> {
  const { fields } = await openHuggingFaceDirectory(directory);
  checkSupported(fields);
  // `model_type` was checked above
  return findModelType(fields.required('model_type', 'a string'))!.kind;
}
