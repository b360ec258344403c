import { type LogicalTensor, loadCheckpoint } from '@mtl/checkpoint';
import { readSavedConfiguration } from '@mtl/configuration';
import type { TrainedOn } from '@mtl/configuration/saved';
import { ConfigurationError } from '@mtl/errors';
import { type OptionChecks, textOption } from '@mtl/errors/options';
import { readHuggingFaceGpt } from '@mtl/formats';
import type { GptModelConfiguration } from '@mtl/models';
import { gptParameterNames } from '@mtl/models/internal';
import type { TokenizerOptions } from '@mtl/tokenizers';
import { isOptimizerTensor } from '@mtl/trainer';
import { loadMerged, weightsWithAdapters } from '../adapters/merged-weights.js';
import { openSavedCheckpoint } from '../checkpoints/open-saved-checkpoint.js';
import { fillTensors } from '../checkpoints/saved-weights.js';
import { iterationOption } from '../option-checks.js';
import { tokenizerOfHuggingFace } from '../tokenizers/hugging-face-tokenizers.js';

/** The location of a trained model. Exactly one of `load` and `loadHuggingFace` must be given. */
export interface OpenGptWeightsOptions {
  /** A directory of checkpoints, as in --save. */
  readonly load?: string | undefined;
  /** The iteration of the checkpoint in `load`. Default: the newest complete checkpoint. */
  readonly checkpointStep?: number | undefined;
  /** A directory of the transformers library with a GPT-2, a Llama or a model derived from Llama. */
  readonly loadHuggingFace?: string | undefined;
  /** A directory with low-rank adapters in PEFT's format, which are merged into the model. */
  readonly loadLora?: string | undefined;
  readonly onNotice: (notice: string) => void;
}

/** Checks of `OpenGptWeightsOptions`. */
export const weightsOptions: OptionChecks<Omit<OpenGptWeightsOptions, 'onNotice'>> = {
  load: textOption,
  checkpointStep: iterationOption,
  loadHuggingFace: textOption,
  loadLora: textOption,
};

/** A trained model whose weights are not loaded yet. */
export interface GptWeights {
  /** The path of the checkpoint or model directory, for messages. */
  readonly path: string;
  readonly model: GptModelConfiguration;
  /**
   * Returns the options of the model's tokenizer; undefined if the model has no tokenizer. Must be called
   * only if the user gives no other tokenizer, because it throws if the tokenizer's files are not supported.
   *
   * @throws ConfigurationError or DataError, the errors of `tokenizerOfHuggingFace`
   */
  tokenizer(): TokenizerOptions | undefined;
  /**
   * The ids of the tokens that end a text. Undefined if the directory names no such tokens, in which case the
   * tokenizer's ids are used.
   */
  readonly endTokens: readonly number[] | undefined;
  /**
   * The sequence length in training, in tokens. If it is unknown, the maximum number of positions in the
   * model's configuration.
   */
  readonly sequenceLength: number;
  /** The model's training data, if the checkpoint records it. */
  readonly data: TrainedOn | undefined;
  /**
   * Fills float32 tensors of the model, or slices of its tensors, identified by their logical names. Each
   * process passes the tensors of its own part of the model.
   */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

/**
 * Finds a trained model in a directory of checkpoints or in a Hugging Face directory. Adapters in `loadLora`
 * are merged into the weights.
 *
 * @throws ConfigurationError MTL_FLAG_REQUIRED or MTL_FLAG_CONFLICT unless exactly one location is given, or
 * if
 *   `loadLora` is given for a checkpoint that has its own adapters; the errors of `weightsWithAdapters`
 * @throws CheckpointError MTL_CHECKPOINT_* or MTL_HUGGING_FACE_*
 */
export async function openGptWeights(options: OpenGptWeightsOptions): Promise<GptWeights> {
  const base = await openBase(options);
  const { loadLora } = options;
  if (loadLora === undefined) return base;
  const path = `${base.path} with adapters ${loadLora}`;
  const from = await weightsWithAdapters(base, loadLora);
  return { ...base, path, load: (tensors) => fillTensors(tensors, { from, path }) };
}

async function openBase(options: OpenGptWeightsOptions): Promise<GptWeights> {
  const { load, checkpointStep, loadHuggingFace } = options;
  if (load !== undefined && loadHuggingFace !== undefined) {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', '--load and --load-hf name two models', {
      remedy: 'leave out one',
    });
  }
  if (loadHuggingFace !== undefined) {
    if (checkpointStep === undefined) return await openHuggingFace(loadHuggingFace, options.onNotice);
    throw new ConfigurationError('MTL_FLAG_NEEDS', `--ckpt-step ${checkpointStep} belongs to --load`, {
      remedy: 'leave --ckpt-step out: a Hugging Face directory holds one model',
    });
  }
  if (load !== undefined) return await openCheckpoint(load, options);
  throw new ConfigurationError('MTL_FLAG_REQUIRED', 'no model is named', {
    expected: '--load DIR (what --save named) or --load-hf DIR (a Hugging Face directory)',
  });
}

async function openCheckpoint(
  load: string,
  { checkpointStep, loadLora, onNotice }: OpenGptWeightsOptions,
): Promise<GptWeights> {
  const { checkpoint, configuration, place } = await openSavedCheckpoint({ load, checkpointStep, onNotice });
  const saved = readSavedConfiguration('gpt', configuration, place);
  if (loadLora !== undefined && saved.lora !== undefined) {
    throw new ConfigurationError(
      'MTL_FLAG_CONFLICT',
      `--load-lora ${loadLora}: ${checkpoint.path} has adapters of its own`,
      { remedy: 'leave --load-lora out' },
    );
  }
  return {
    path: checkpoint.path,
    model: saved.model,
    tokenizer: () => saved.tokenizer,
    endTokens: undefined,
    sequenceLength: saved.resolved?.model.sequenceLength ?? saved.model.maxPositionEmbeddings,
    data: saved.trainedOn,
    load: async (tensors) => {
      const { model, lora } = saved;
      if (lora !== undefined) return await loadMerged(checkpoint, { tensors, model, lora });
      const own = new Set(tensors.map(({ name }) => name));
      const elsewhere = new Set(gptParameterNames(model).filter((name) => !own.has(name)));
      const ignore = (name: string): boolean => isOptimizerTensor(name) || elsewhere.has(name);
      await loadCheckpoint({ checkpoint, tensors, ignore });
    },
  };
}

async function openHuggingFace(directory: string, onNotice: (notice: string) => void): Promise<GptWeights> {
  const found = await readHuggingFaceGpt({ directory });
  for (const notice of found.notices) onNotice(notice);
  return {
    path: directory,
    model: found.configuration,
    tokenizer: () => tokenizerOfHuggingFace(found.tokenizerFiles),
    endTokens: found.endTokens.length === 0 ? undefined : found.endTokens,
    sequenceLength: found.configuration.maxPositionEmbeddings,
    data: undefined,
    load: (tensors) => found.load(tensors),
  };
}
