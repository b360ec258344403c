import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join, normalize } from 'node:path';
import {
  dtypeBytes,
  type LogicalTensor,
  type TensorSource,
  writeSafetensorsDirectory,
} from '@mtl/checkpoint';
import type { ProcessGroup } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';
import { ScratchMemory, type WritableDtype } from './float-bytes.js';
import { mappedWeightSources } from './mapped-weight-sources.js';
import type { WeightNames } from './mapped-weights.js';
import { publishDirectory } from './publish-directory.js';

/** Names of dtypes in config.json. */
export const dtypeNames: Readonly<Record<WritableDtype, string>> = {
  F32: 'float32',
  BF16: 'bfloat16',
  F16: 'float16',
};

/** Either the path of a file to copy, or the contents to write. */
export type TokenizerFileSource = string | { readonly contents: string };

/** The options for saving a model that all kinds of models have. */
export interface SaveHuggingFaceOptions {
  /** The output directory, which must be missing or empty. It is written atomically, with one rename. */
  readonly directory: string;
  /**
   * All tensors of the model, complete or sharded over `group`: master weights, the result of
   * `parameterTensors`, or tensors from a checkpoint.
   */
  readonly tensors: readonly LogicalTensor[];
  /**
   * The tensor-parallel ranks over which the tensors are sharded. All these ranks must call the function. The
   * first rank writes; the other ranks send their slices and return when the directory is complete. One
   * tensor is gathered at a time.
   */
  readonly group?: ProcessGroup | undefined;
  /** Dtype of the stored weights. Default: F32. */
  readonly dtype?: WritableDtype;
  /**
   * tokenizer.json and the tokenizer's other files, by their names in the directory (see `tokenizerFilesIn`).
   * Each value is the path of a file to copy, or the contents.
   */
  readonly tokenizerFiles?: Readonly<Record<string, TokenizerFileSource>>;
  /**
   * The maximum size of a weight file, in bytes. If the weights are larger, they are split into several files
   * with an index. Default: 5 GB.
   */
  readonly maxShardBytes?: number;
}

/** The parts of a saved model that depend on its kind (GPT or BERT). */
interface HuggingFaceFamily {
  readonly names: WeightNames;
  /** Adds the file's prefix, if any, to a tensor's name. */
  fileName(name: string): string;
  /** Tensors in the files that are not parameters of the model. */
  readonly constants?: readonly TensorSource[];
  /** The contents of config.json and the other JSON files, by file name. */
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
 * Saves a model for transformers' `from_pretrained`. The directory is written under a temporary name and
 * renamed, so a failed save leaves no files.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_EXISTS, MTL_HUGGING_FACE_SHAPE, MTL_HUGGING_FACE_IO,
 *   MTL_CHECKPOINT_*
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is missing, unknown, or only a slice although
 *   there is no group; MTL_HUGGING_FACE_FILE_NAME for a file that would be outside of the directory
 */
export async function writeHuggingFaceDirectory(
  options: SaveHuggingFaceOptions,
  family: HuggingFaceFamily,
): Promise<void> {
  const { group } = options;
  if (group === undefined || group.rank === 0) {
    await publishDirectory(options, (directory) => writeFiles(directory, options, family));
  }
  // the other ranks read in the same order as the first rank, because each read is a collective
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

/**
 * Matches float fields whose value is an integer. JavaScript writes 0.0 as `0`, which transformers rejects
 * because it is an integer.
 */
const integersOfFloats =
  /^( *"(?:initializer_range|layer_norm_eps|layer_norm_epsilon|rms_norm_eps|router_aux_loss_coef|router_jitter_noise)": -?\d+)(,?)$/gm;

const jsonText = (value: Readonly<Record<string, unknown>>): string =>
  JSON.stringify(value, null, 2).replace(integersOfFloats, '$1.0$2');

/** Returns `name`, after checking that it is a path inside the directory. */
function nameWithin(name: string): string {
  const normal = normalize(name);
  if (!isAbsolute(normal) && normal !== '..' && !normal.startsWith('../')) return normal;
  throw new UsageError('MTL_HUGGING_FACE_FILE_NAME', `${name} is not a name of a file in the directory`, {
    expected: 'a name such as tokenizer.json or additional_chat_templates/tool_use.jinja',
  });
}

/**
 * Returns tensors whose `read` gathers the slices of all ranks. All ranks of the group must read the same
 * tensors in the same order. Each read overwrites the values of the previous read. Needs memory for the
 * largest tensor and three times the largest slice.
 *
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is not sharded evenly along one dimension, in the
 *   order of the ranks
 */
function gatheredTensors(tensors: readonly LogicalTensor[], group: ProcessGroup): LogicalTensor[] {
  const scratch = new ScratchMemory(2 * Math.max(0, ...tensors.map(wholeBytes)) + 64);
  return tensors.map((tensor) => {
    const { globalShape, slices, readInto, ...rest } = tensor;
    const dim = slices.findIndex(({ start, end }, index) => start !== 0 || end !== globalShape[index]);
    if (dim < 0) return tensor;
    checkCut(tensor, dim, group);
    const numRows = globalShape.slice(0, dim).reduce((product, size) => product * size, 1);
    return {
      ...rest,
      globalShape,
      slices: globalShape.map((size) => ({ start: 0, end: size })),
      read: async () => {
        scratch.reset();
        const part = scratch.bytes(wholeBytes(tensor) / group.size);
        if (readInto === undefined) part.set(await tensor.read());
        else await readInto(part);
        const whole = scratch.bytes(wholeBytes(tensor));
        gather(part, { group, numRows, whole });
        return whole;
      },
    };
  });
}

const wholeBytes = ({ globalShape, dtype }: LogicalTensor): number =>
  globalShape.reduce((product, size) => product * size, dtypeBytes[dtype]);

function checkCut({ name, globalShape, slices }: LogicalTensor, dim: number, group: ProcessGroup): void {
  const each = globalShape[dim]! / group.size;
  const { start, end } = slices[dim]!;
  const isOnlyCut = slices.every(
    (slice, index) => index === dim || (slice.start === 0 && slice.end === globalShape[index]),
  );
  if (isOnlyCut && start === group.rank * each && end === start + each) return;
  throw new UsageError(
    'MTL_HUGGING_FACE_TENSOR',
    `rank ${group.rank} of ${group.size} holds [${slices.map((slice) => `${slice.start} to ${slice.end}`).join(', ')}] of ${name}`,
    { expected: `even shards along one dimension of [${globalShape.join(', ')}], in the order of the ranks` },
  );
}

/**
 * Gathers the slices of all ranks into `whole`, row by row. `part` begins with this rank's slice, and has
 * room for the slices of the other ranks.
 */
function gather(
  part: Uint8Array,
  { group, numRows, whole }: { group: ProcessGroup; numRows: number; whole: Uint8Array },
): void {
  const width = part.length / numRows;
  using own = Tensor.from(part, { shape: [part.length], dtype: 'uint8' });
  using other = Tensor.empty({ shape: [part.length], dtype: 'uint8' });
  for (let root = 0; root < group.size; root++) {
    const sent = root === group.rank ? own : other;
    group.broadcast(sent, { root }).wait();
    sent.readInto(part);
    for (let row = 0; row < numRows; row++) {
      whole.set(part.subarray(row * width, (row + 1) * width), (row * group.size + root) * width);
    }
  }
}
