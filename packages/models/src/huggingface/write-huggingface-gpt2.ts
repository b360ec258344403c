import { copyFile, mkdir, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { type LogicalTensor, type TensorSource, writeSafetensorsDirectory } from '@mtl/checkpoint';
import type { ProcessGroup } from '@mtl/comm';
import { CheckpointError, MtlError } from '@mtl/errors';
import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import type { WritableDtype } from './float-bytes.js';
import { gatheredTensors } from './gathered-tensors.js';
import { encodeGpt2Configuration } from './gpt2-configuration.js';
import { gpt2WeightMappings } from './gpt2-weight-mappings.js';
import { gpt2WeightNames } from './gpt2-weight-names.js';
import { mappedWeightSources } from './mapped-weights.js';

const dtypeNames: Readonly<Record<WritableDtype, string>> = {
  F32: 'float32',
  BF16: 'bfloat16',
  F16: 'float16',
};

export interface WriteHuggingFaceGpt2Options {
  /** Must not exist yet, or be empty; it appears whole, by one rename. */
  readonly directory: string;
  readonly model: GptModelConfiguration;
  /** All tensors of the model: master weights, `parameterTensors`, or those of a checkpoint. Whole, or with a `group`. */
  readonly tensors: readonly LogicalTensor[];
  /**
   * The tensor-parallel processes among which the tensors are cut. All of them call; the first one writes, the others send
   * it their slices and return when it is done. One tensor at a time is whole.
   */
  readonly group?: ProcessGroup | undefined;
  /** What weights are stored as. Default F32. */
  readonly dtype?: WritableDtype;
  /** Tokens that end a text; the first also begins one, as in GPT-2. */
  readonly endTokens?: readonly number[];
  /** Files to copy along, name to path: tokenizer.json and others. */
  readonly tokenizerFiles?: Readonly<Record<string, string>>;
  /** Above it the weights are cut into shards with an index. Default 5 GB. */
  readonly maxShardBytes?: number;
}

/** Refuses a target that holds something: its files would mix with ours. */
async function checkTarget(directory: string): Promise<void> {
  const present = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  if (present.length === 0) return;
  throw new CheckpointError(
    'MTL_HUGGING_FACE_EXISTS',
    `${directory} holds ${present.slice(0, 4).join(', ')} already`,
    {
      expected: 'a new or an empty directory',
      remedy: 'choose another name, or delete the old model',
      exitCode: 2,
    },
  );
}

async function writeJson(path: string, value: Record<string, unknown>): Promise<void> {
  await writeFile(path, `${JSON.stringify(value, null, 2)}\n`);
}

function weightSources({
  model,
  tensors,
  group,
  dtype = 'F32',
}: WriteHuggingFaceGpt2Options): TensorSource[] {
  return mappedWeightSources({
    names: gpt2WeightNames(gpt2WeightMappings(model)),
    tensors: group === undefined ? tensors : gatheredTensors(tensors, group),
    dtype,
    fileName: (name) => (name === 'lm_head.weight' ? name : `transformer.${name}`),
  });
}

async function writeFiles(directory: string, options: WriteHuggingFaceGpt2Options): Promise<void> {
  const { model, dtype = 'F32', endTokens = [], tokenizerFiles = {} } = options;
  await writeSafetensorsDirectory({
    directory,
    tensors: weightSources(options),
    metadata: { format: 'pt' },
    ...(options.maxShardBytes === undefined ? {} : { maxShardBytes: options.maxShardBytes }),
  });
  await writeJson(
    join(directory, 'config.json'),
    encodeGpt2Configuration(model, { dtype: dtypeNames[dtype], endTokens }),
  );
  const [endToken] = endTokens;
  await writeJson(join(directory, 'generation_config.json'), {
    ...(endToken === undefined ? {} : { bos_token_id: endToken }),
    ...(endToken === undefined ? {} : { eos_token_id: endTokens.length === 1 ? endToken : endTokens }),
  });
  for (const [name, path] of Object.entries(tokenizerFiles))
    await copyFile(path, join(directory, basename(name)));
}

/**
 * Saves a GPT as transformers' GPT2LMHeadModel: `from_pretrained` loads it. The vocabulary's padding is dropped. It is
 * written beside the target and renamed, so that a failed save leaves nothing behind.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_EXISTS, MTL_HUGGING_FACE_SHAPE, MTL_HUGGING_FACE_IO, MTL_CHECKPOINT_*
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is missing, unknown or only a slice without a group
 */
export async function writeHuggingFaceGpt2(options: WriteHuggingFaceGpt2Options): Promise<void> {
  const { group } = options;
  if (group === undefined || group.rank === 0) await writeDirectory(options);
  // all tensors have one dtype in the file, so that the first process reads them in this order
  else for (const source of weightSources(options)) await source.read();
  group?.barrier().wait();
}

async function writeDirectory(options: WriteHuggingFaceGpt2Options): Promise<void> {
  const directory = resolve(options.directory);
  const unfinished = join(dirname(directory), `.${basename(directory)}.saving-${process.pid}`);
  try {
    await checkTarget(directory);
    await mkdir(unfinished, { recursive: true });
    await writeFiles(unfinished, options);
    // rename replaces an empty directory on POSIX only
    await rmdir(directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
    await rename(unfinished, directory);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    if (MtlError.isInstance(error)) throw error;
    throw new CheckpointError(
      'MTL_HUGGING_FACE_IO',
      `the model cannot be saved to ${directory}: ${(error as Error).message}`,
      { remedy: 'choose a directory that can be written to', cause: error },
    );
  }
}
