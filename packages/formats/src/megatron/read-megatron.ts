import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { checkpointName, type LogicalTensor, trackerName } from '@mtl/checkpoint';
import { fileProblem, readRegularFile } from '@mtl/errors/files';
import { type BertModelConfiguration, computeHeadSize, type GptModelConfiguration } from '@mtl/models';
import { checkWeightSizes } from '../huggingface/check-weight-sizes.js';
import { readConfigFields } from '../huggingface/config-fields.js';
import type { JsonFields } from '../huggingface/json-fields.js';
import { loadMappedWeights } from '../huggingface/load-mapped-weights.js';
import type { WeightNames } from '../huggingface/mapped-weights.js';
import type { WeightFiles } from '../huggingface/weight-files.js';
import { openDistributedMegatron } from './distributed-megatron-files.js';
import { openLegacyMegatron } from './legacy-megatron-files.js';
import { megatronArguments } from './megatron-arguments.js';
import {
  checkMegatronFeatures,
  hasNormsLessOne,
  type MegatronModelKind,
  megatronModelTypes,
  statedProperties,
} from './megatron-fields.js';
import {
  type MegatronFiles,
  type MegatronOptimizerState,
  megatronError,
  readCount,
  type StoredArchitecture,
} from './megatron-files.js';
import { isBuffer, megatronWeightNames } from './megatron-weight-names.js';

/**
 * A checkpoint's format: `torch_dist`, which is Megatron-Core's default, or `torch`, which has a file for
 * each rank.
 */
type MegatronFormat = 'torch_dist' | 'torch';

/** An opened Megatron-LM checkpoint. Its files stay open until `close`. */
export interface MegatronModel {
  /** Path of the checkpoint. */
  readonly path: string;
  readonly format: MegatronFormat;
  readonly iteration: number;
  readonly kind: MegatronModelKind;
  readonly configuration: GptModelConfiguration | BertModelConfiguration;
  /**
   * AdamW's state, if the format stores a state for each weight. If it is present, the model's `load` fills
   * tensors with the float32 weights that AdamW updates.
   */
  readonly optimizer?: MegatronOptimizer | undefined;
  /** The number of samples that the training run had consumed. */
  readonly consumedSamples: number;
  readonly consumedTokens: number;
  /** Messages for the user. */
  readonly notices: readonly string[];
  /**
   * Fills the given tensors, or slices of tensors, with the checkpoint's weights.
   *
   * @throws CheckpointError MTL_MEGATRON_WEIGHTS, MTL_NOT_FINITE, MTL_TORCH_FILE_INVALID
   */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** The state of AdamW in a checkpoint. */
interface MegatronOptimizer {
  readonly steps: number;
  /**
   * Fills the given tensors with AdamW's moments. Their names are `optimizer.exp_avg.NAME` and
   * `optimizer.exp_avg_sq.NAME`, where NAME is the name of a weight.
   */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

/**
 * Opens a Megatron-LM checkpoint: a GPT, a Llama or a derived model, with or without experts, or a BERT.
 * The format is `torch_dist`, or `torch` with any tensor-, pipeline- and expert-parallel size. Sizes in the
 * args are compared with the weights before memory of these sizes is allocated.
 *
 * @param options.directory the checkpoint, or the directory of checkpoints
 * @param options.step the iteration. Default: the latest
 * @param options.vocabularySize the vocabulary size without padding rows. Default: the value in the args, or
 *   all rows of the embedding if the args do not state it
 * @param options.weightsOnly true to ignore the optimizer state. Default: false
 * @throws CheckpointError MTL_MEGATRON_CHECKPOINT when the directory is not a complete checkpoint;
 *   MTL_MEGATRON_ARGUMENTS for an unsupported model; MTL_MEGATRON_WEIGHTS when the weights do not match the
 *   args; MTL_TORCH_FILE_INVALID
 */
export async function readMegatron(options: {
  readonly directory: string;
  readonly step?: number | undefined;
  readonly vocabularySize?: number | undefined;
  readonly weightsOnly?: boolean | undefined;
}): Promise<MegatronModel> {
  const { path, format } = await findMegatronCheckpoint(options);
  const files = await (format === 'torch' ? openLegacyMegatron(path) : openDistributedMegatron(path));
  try {
    return { ...describe(files, options), format };
  } catch (error) {
    await files.close();
    throw error;
  }
}

/** The directory that contains one iteration's checkpoint. */
interface MegatronDirectory {
  readonly path: string;
  readonly format: MegatronFormat;
}

/** The maximum size, in bytes, of a checkpoint's small text files, which normally have a single line. */
const maxTextBytes = 1 << 16;

/**
 * Finds the checkpoint in a directory: the directory itself, its subdirectory for the requested iteration, or
 * the subdirectory that its tracker file names.
 *
 * @throws CheckpointError MTL_MEGATRON_CHECKPOINT
 */
async function findMegatronCheckpoint(options: {
  readonly directory: string;
  readonly step?: number | undefined;
}): Promise<MegatronDirectory> {
  const { directory, step } = options;
  const own = await detectFormat(directory);
  if (own !== undefined) {
    if (step === undefined) return { path: directory, format: own };
    throw megatronError(directory, 'it is one checkpoint, and an iteration is asked for', {
      remedy: 'leave the iteration out, or pass the directory above it',
    });
  }
  const name = step === undefined ? latestName(directory) : checkpointName(step);
  const path = join(directory, name);
  const format = await detectFormat(path, { directory, name });
  if (format !== undefined) return { path, format };
  throw megatronError(path, 'it contains neither .metadata nor mp_rank_00', {
    expected: 'a checkpoint of the format torch_dist or torch',
  });
}

function latestName(directory: string): string {
  const text = readText(join(directory, trackerName))?.trim();
  if (text === 'release') return text;
  if (text !== undefined && /^\d{1,15}$/.test(text)) return checkpointName(Number(text));
  if (text === undefined) {
    throw megatronError(directory, `it has no ${trackerName}, and is no checkpoint itself`, {
      expected: `${trackerName}, .metadata or mp_rank_00 in it`,
    });
  }
  throw megatronError(directory, `${trackerName} contains ${JSON.stringify(text.slice(0, 40))}`, {
    expected: 'an iteration, or the word release',
  });
}

/** Returns a checkpoint's format; undefined if the directory is not a checkpoint. */
async function detectFormat(
  path: string,
  asked?: { readonly directory: string; readonly name: string },
): Promise<MegatronFormat | undefined> {
  const names = await readdir(path).catch(async () => {
    const others = asked === undefined ? [] : await readdir(asked.directory).catch(() => []);
    const saved = others.filter((name) => /^iter_\d{7,}$|^release$/.test(name)).sort();
    throw megatronError(path, 'there is no such directory', {
      expected: saved.length === 0 ? undefined : `one of ${saved.slice(-8).join(', ')}`,
    });
  });
  if (names.includes('manifest.json')) {
    throw megatronError(path, 'it is a checkpoint of this library', { remedy: 'pass it with --load' });
  }
  if (names.some((name) => /^mp_rank_\d/.test(name))) return 'torch';
  if (!names.includes('.metadata')) {
    if (!names.includes('.zarray') && !names.includes('metadata.json')) return undefined;
    throw megatronError(path, 'it has no .metadata', {
      expected: 'the format torch_dist or torch (zarr is not read)',
      remedy: 'save it with --ckpt-format torch_dist',
    });
  }
  const text = readText(join(path, 'metadata.json'));
  if (text === undefined) {
    throw megatronError(
      path,
      'it has no metadata.json, which Megatron-LM writes last: the save did not finish',
      {
        expected: 'the format torch_dist (torch_dcp and fsdp_dtensor are not read)',
        remedy: 'use an earlier checkpoint, or save it with --ckpt-format torch_dist',
      },
    );
  }
  const backend = readBackend(text);
  if (backend === 'torch_dist') return 'torch_dist';
  throw megatronError(path, `metadata.json names the backend ${JSON.stringify(backend)}`, {
    expected: 'torch_dist',
    remedy: 'save it with --ckpt-format torch_dist',
  });
}

/** Returns a small file's contents; undefined if the file is missing. */
function readText(path: string): string | undefined {
  try {
    return readRegularFile(path, maxTextBytes).toString('utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw megatronError(path, `it ${fileProblem(error)}`);
  }
}

function readBackend(text: string): unknown {
  try {
    return (JSON.parse(text) as { sharded_backend?: unknown } | null)?.sharded_backend;
  } catch {
    return undefined;
  }
}

function describe(
  files: MegatronFiles,
  {
    vocabularySize: asked,
    weightsOnly = false,
  }: { readonly vocabularySize?: number | undefined; readonly weightsOnly?: boolean | undefined },
): Omit<MegatronModel, 'format'> {
  const { path, iteration } = files;
  const fields = megatronArguments(files.arguments, path);
  checkMegatronFeatures(fields);
  const kind = detectKind(files);
  const { layers, fields: table, fixed } = megatronModelTypes[kind];
  const stated = { ...readConfigFields(fields, table), ...fixed };
  const vocabularySize = asked ?? (stated.vocabularySize as number);
  const configuration = statedProperties({ ...stated, vocabularySize }) as unknown as
    | GptModelConfiguration
    | BertModelConfiguration;
  const isGated = 'swiglu' in configuration && configuration.swiglu === true;
  const headSize = computeHeadSize(configuration);
  const numExperts = 'numExperts' in configuration ? configuration.numExperts : undefined;
  const architecture = { layers, isGated, numExperts, headSize, vocabularySize };
  const weights = files.weights(architecture);
  const layout = { kind, model: configuration, vocabularySize };
  // the moments are stored unchanged, even if norm weights are stored minus 1
  const names = () => megatronWeightNames(layout);
  const normsLessOne = hasNormsLessOne(fields);
  const embedding = 'embedding.word_embeddings.weight';
  const known = { stated: { fields, table }, embedding, naming: { prefix: '' } };
  checkWeightSizes({ weights, ...configuration, ...known, names });
  const consumedSamples = readCount(fields.values.consumed_train_samples);
  const states = weightsOnly ? undefined : optimizerStates({ files, weights, architecture });
  return {
    path,
    iteration,
    kind,
    configuration,
    consumedSamples,
    consumedTokens:
      consumedSamples * (readCount(fields.values.seq_length) || configuration.maxPositionEmbeddings),
    notices: [
      ...listNotices({ fields, kind, asked }),
      ...(weightsOnly || states !== undefined
        ? []
        : ['only its weights are taken: the state of its optimizer is not there for each weight']),
    ],
    load: (tensors) =>
      loadMappedWeights({
        weights: states?.fp32_param === undefined ? weights : addBuffers(weights, states.fp32_param),
        tensors,
        names: megatronWeightNames({ ...layout, normsLessOne }),
      }),
    optimizer: states && {
      steps: files.optimizer!.steps,
      load: (tensors) => loadStates(tensors, { states, names }),
    },
    close: files.close,
    [Symbol.asyncDispose]: files.close,
  };
}

type States = Readonly<Record<'exp_avg' | 'exp_avg_sq', WeightFiles>> & {
  /** The float32 weights that AdamW updates; absent if the model itself is in float32. */
  readonly fp32_param?: WeightFiles;
};

/** Returns AdamW's states; undefined if a weight's state is missing or differs from the weight in shape. */
function optimizerStates(options: {
  readonly files: MegatronFiles;
  readonly weights: WeightFiles;
  readonly architecture: StoredArchitecture;
}): States | undefined {
  const { files, weights, architecture } = options;
  const { optimizer } = files;
  if (optimizer === undefined) return undefined;
  const isFloat32 = [...weights.tensors.values()].every(({ dtype }) => dtype === 'F32');
  const names = [
    'exp_avg',
    'exp_avg_sq',
    ...(isFloat32 && !optimizer.has('fp32_param') ? [] : ['fp32_param']),
  ];
  const states = names.map((name) => {
    const state = name as MegatronOptimizerState;
    return [state, optimizer.has(state) ? optimizer.state(state, architecture) : undefined] as const;
  });
  const isWhole = states.every(([, state]) =>
    [...weights.tensors].every(
      ([name, { shape }]) => isBuffer(name) || state?.tensors.get(name)?.shape.join() === shape.join(),
    ),
  );
  return isWhole ? (Object.fromEntries(states) as unknown as States) : undefined;
}

/**
 * Returns files that contain the `updated` weights, and additionally the buffers in `weights`, which no
 * optimizer updates.
 */
function addBuffers(weights: WeightFiles, updated: WeightFiles): WeightFiles {
  const buffers = [...weights.tensors].filter(([name]) => isBuffer(name));
  return {
    ...updated,
    tensors: new Map([...updated.tensors, ...buffers]),
    read: (options) => (isBuffer(options.name) ? weights : updated).read(options),
  };
}

async function loadStates(
  tensors: readonly LogicalTensor[],
  { states, names }: { readonly states: States; readonly names: () => WeightNames },
): Promise<void> {
  for (const state of ['exp_avg', 'exp_avg_sq'] as const) {
    const prefix = `optimizer.${state}.`;
    const own = tensors.filter(({ name }) => name.startsWith(prefix));
    const renamed = own.map((tensor) => ({ ...tensor, name: tensor.name.slice(prefix.length) }));
    const all = names();
    const mappings = all.mappings.filter(({ name }) => !isBuffer(name));
    await loadMappedWeights({ weights: states[state], tensors: renamed, names: { ...all, mappings } });
  }
}

/**
 * Returns the kind of model. The args do not contain the kind, so it is determined from the names of the
 * weights.
 */
function detectKind({ path, names }: MegatronFiles): MegatronModelKind {
  const has = (pattern: RegExp): boolean => names.some((name) => pattern.test(name));
  const isBert = has(/(^|\.)lm_head\.dense\.weight$|(^|\.)tokentype_embeddings\.weight$/);
  if (!has(/(^|\.)word_embeddings\.weight$/)) {
    throw megatronError(path, 'it has no token embedding', { expected: 'a GPT, a Llama or a BERT' });
  }
  if (has(/(^|\.)decoder\.layers\./) && has(/(^|\.)encoder\.layers\./)) {
    throw megatronError(path, 'it is of a model with encoder and decoder, which is not supported', {
      expected: 'a GPT, a Llama or a BERT',
    });
  }
  return isBert ? 'bert' : 'gpt';
}

function listNotices(options: {
  readonly fields: JsonFields;
  readonly kind: MegatronModelKind;
  readonly asked: number | undefined;
}): readonly string[] {
  const { fields, kind, asked } = options;
  const { vocab_size: stated, padded_vocab_size: padded, tokenizer_type: tokenizer } = fields.values;
  const isPadded = asked === undefined && typeof stated !== 'number';
  const gelu =
    kind === 'bert' && fields.values.bias_gelu_fusion !== false && fields.values.openai_gelu !== true;
  return [
    ...(isPadded
      ? [
          `${fields.path} do not state the size of the vocabulary: all ${String(padded)} rows of the embedding count as tokens`,
        ]
      : []),
    ...(gelu
      ? [
          'the head for masked tokens computes GELU by its tanh approximation, as the layers do; in Megatron-LM it does not',
        ]
      : []),
    ...(typeof tokenizer === 'string' ? [`it was trained with --tokenizer-type ${tokenizer}`] : []),
  ];
}
