import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join, normalize } from 'node:path';
import { type LogicalTensor, type TensorSource, writeSafetensorsDirectory } from '@mtl/checkpoint';
import type { ProcessGroup } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import type { WritableDtype } from './float-bytes.js';
import { gatheredTensors } from './gathered-tensors.js';
import { mappedWeightSources, type WeightNames } from './mapped-weights.js';
import { publishDirectory } from './publish-directory.js';

/** What `dtype` is called in config.json. */
export const dtypeNames: Readonly<Record<WritableDtype, string>> = {
  F32: 'float32',
  BF16: 'bfloat16',
  F16: 'float16',
};

/** The path of a file to copy, or what is to be in it. */
export type TokenizerFileSource = string | { readonly contents: string };

/** What is the same for every model that is saved. */
export interface SaveHuggingFaceOptions {
  /** Must not exist yet, or be empty; it appears whole, by one rename. */
  readonly directory: string;
  /**
   * All tensors of the model: master weights, `parameterTensors`, or those of a checkpoint. Whole, or with a
   * `group`.
   */
  readonly tensors: readonly LogicalTensor[];
  /**
   * The tensor-parallel ranks over which the tensors are sharded. All of them call; the first one writes,
   * the others send it their slices and return when it is done. One tensor at a time is whole.
   */
  readonly group?: ProcessGroup | undefined;
  /** What weights are stored as. Default F32. */
  readonly dtype?: WritableDtype;
  /**
   * tokenizer.json and others by their names in the directory (`tokenizerFilesIn`): paths of files to copy,
   * or the contents of a file.
   */
  readonly tokenizerFiles?: Readonly<Record<string, TokenizerFileSource>>;
  /** Above it the weights are split into several files with an index. Default 5 GB. */
  readonly maxShardBytes?: number;
}

/** What a family of models adds. */
export interface HuggingFaceFamily {
  readonly names: WeightNames;
  /** The name in the file of a name without prefix. */
  fileName(name: string): string;
  /** Tensors of the files that are no parameters of the model. */
  readonly constants?: readonly TensorSource[];
  /** config.json and others, by their names. */
  readonly jsonFiles: Readonly<Record<string, Record<string, unknown>>>;
}

function weightSources(
  { tensors, group, dtype = 'F32' }: SaveHuggingFaceOptions,
  { names, fileName }: HuggingFaceFamily,
): TensorSource[] {
  return mappedWeightSources({
    names,
    dtype,
    fileName,
    tensors: group === undefined ? tensors : gatheredTensors(tensors, group),
  });
}

/**
 * Saves a model as transformers' `from_pretrained` loads it. It is written next to the target and renamed, so
 * that a failed save leaves nothing behind.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_EXISTS, MTL_HUGGING_FACE_SHAPE, MTL_HUGGING_FACE_IO,
 *   MTL_CHECKPOINT_*
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is missing, unknown or only a slice without a
 *   group; MTL_HUGGING_FACE_FILE_NAME for a file that would be outside of the directory
 */
export async function writeHuggingFaceDirectory(
  options: SaveHuggingFaceOptions,
  family: HuggingFaceFamily,
): Promise<void> {
  const { group } = options;
  if (group === undefined || group.rank === 0) {
    await publishDirectory(options, (directory) => writeFiles(directory, options, family));
  }
  // all tensors have one dtype in the file, so that the first process reads them in this order
  else for (const source of weightSources(options, family)) await source.read();
  group?.barrier().wait();
}

async function writeFiles(
  directory: string,
  options: SaveHuggingFaceOptions,
  family: HuggingFaceFamily,
): Promise<void> {
  const { tokenizerFiles = {}, maxShardBytes } = options;
  await writeSafetensorsDirectory({
    directory,
    tensors: [...weightSources(options, family), ...(family.constants ?? [])],
    metadata: { format: 'pt' },
    ...(maxShardBytes === undefined ? {} : { maxShardBytes }),
  });
  for (const [name, value] of Object.entries(family.jsonFiles))
    await writeFile(join(directory, name), `${jsonText(value)}\n`);
  for (const [name, source] of Object.entries(tokenizerFiles)) {
    const path = join(directory, nameWithin(name));
    await mkdir(dirname(path), { recursive: true });
    if (typeof source === 'string') await copyFile(source, path);
    else await writeFile(path, source.contents);
  }
}

/** Fields that transformers refuses as integers: `0` is one for it, and JavaScript writes 0.0 as that. */
const integersOfFloats =
  /^( *"(?:initializer_range|layer_norm_eps|layer_norm_epsilon|rms_norm_eps|router_aux_loss_coef|router_jitter_noise)": -?\d+)(,?)$/gm;

const jsonText = (value: Readonly<Record<string, unknown>>): string =>
  JSON.stringify(value, null, 2).replace(integersOfFloats, '$1.0$2');

/** A name that does not leave the directory. */
function nameWithin(name: string): string {
  const normal = normalize(name);
  if (!isAbsolute(normal) && normal !== '..' && !normal.startsWith('../')) return normal;
  throw new UsageError('MTL_HUGGING_FACE_FILE_NAME', `${name} is not a name of a file in the directory`, {
    expected: 'a name such as tokenizer.json or additional_chat_templates/tool_use.jinja',
  });
}
