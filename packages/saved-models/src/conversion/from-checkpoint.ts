import { readSavedConfiguration } from '@mtl/configuration';
import { checkHuggingFaceArchitecture, readAnySavedConfiguration } from '@mtl/configuration/internal';
import { createTokenizer } from '@mtl/data';
import { CheckpointError, ConfigurationError } from '@mtl/errors';
import { checkOptions, type OptionChecks, required, textOption } from '@mtl/errors/options';
import {
  type HuggingFaceOrigin,
  mergedWeights,
  type WritableDtype,
  writeLoraDirectory,
  writeMegatron,
} from '@mtl/formats';
import type { BertModelConfiguration, GptModelConfiguration } from '@mtl/models';
import { recipeOf } from '@mtl/run-parts/internal';
import { readTrainingState } from '@mtl/trainer';
import { checkSavedWeights } from '../checkpoints/check-saved.js';
import { openSavedCheckpoint } from '../checkpoints/open-saved-checkpoint.js';
import { savedWeights } from '../checkpoints/saved-weights.js';
import { iterationOption, noticesOption, storedDtypeOption } from '../option-checks.js';
import { exportedTokenizerNotice } from '../tokenizers/exported-tokenizer-notice.js';
import { exportedTokenizerFiles } from '../tokenizers/hugging-face-tokenizers.js';

interface CheckpointToHuggingFaceOptions {
  /** A directory of checkpoints of a GPT or a BERT. */
  readonly load: string;
  /** The iteration; default the newest whole checkpoint. */
  readonly checkpointStep?: number | undefined;
  /** New or empty. */
  readonly directory: string;
  /**
   * Dtype that weights are stored as. Default: that of the directory that the model came from; F32 for a
   * model that was trained from nothing.
   */
  readonly dtype?: WritableDtype | undefined;
  readonly onNotice: (notice: string) => void;
}

const checksOfLora: OptionChecks<CheckpointToLoraOptions> = {
  load: required(textOption),
  checkpointStep: iterationOption,
  directory: required(textOption),
  onNotice: required(noticesOption),
};
const checks: OptionChecks<CheckpointToHuggingFaceOptions> = { ...checksOfLora, dtype: storedDtypeOption };

/**
 * Writes the weights of a checkpoint, whatever layout saved it, as a directory of the transformers library,
 * with the tokenizer's files; low-rank adapters are merged into them. Tensors are read as their turn comes;
 * the whole model is never in memory.
 *
 * @returns the path of the checkpoint, and what weights are stored as
 * @throws ConfigurationError MTL_OPTION, MTL_HUGGING_FACE_LAYER_NORM, MTL_HUGGING_FACE_ARCHITECTURE,
 *   MTL_FINE_TUNING_CONVERT; CheckpointError MTL_CHECKPOINT_*, MTL_HUGGING_FACE_*
 */
export async function checkpointToHuggingFace(
  options: CheckpointToHuggingFaceOptions,
): Promise<{ readonly path: string; readonly dtype: WritableDtype }> {
  checkOptions(options, { of: 'checkpointToHuggingFace', checks });
  const { directory, onNotice } = options;
  const { checkpoint, configuration, place } = await openSavedCheckpoint(options);
  const { path } = checkpoint;
  if ('fineTuning' in configuration) {
    throw new ConfigurationError('MTL_FINE_TUNING_CONVERT', `${path} is of a fine-tuning`, {
      expected: 'a checkpoint of a pretraining',
      remedy: 'write it with mtl finetune: the same flags with --resume and --save-hf DIR',
    });
  }
  const saved = readAnySavedConfiguration(configuration, place);
  checkSavedWeights(checkpoint, saved);
  const { kind, model, tokenizer: tokenizerOptions, huggingFace: origin, lora } = saved;
  const dtype = options.dtype ?? dtypeOfOrigin(origin);
  const recipe = recipeOf({ kind });
  checkHuggingFaceArchitecture({ kind, model });
  const tokenizer = tokenizerOptions && (await createTokenizer(tokenizerOptions));
  const tokenizerFiles = await exportedTokenizerFiles(tokenizerOptions, model);
  const weights = savedWeights(checkpoint);
  const tensors = lora ? mergedWeights(weights, { model: model as GptModelConfiguration, lora }) : weights;
  await recipe.saveHuggingFace({ directory, model, tensors, tokenizer, tokenizerFiles, dtype, origin });
  const notice = await exportedTokenizerNotice(directory, tokenizer);
  if (notice !== undefined) onNotice(notice);
  if (Object.keys(tokenizerFiles).length === 0) {
    onNotice(`the ${tokenizer?.name ?? 'tokenizer'} has no files of its own: none were written`);
  }
  return { path, dtype };
}

/**
 * Writes the weights of a checkpoint, whatever layout saved it, as a checkpoint of Megatron-LM in the format
 * `torch_dist`; low-rank adapters are merged into them. Tensors are read as their turn comes; the whole model
 * is never in memory.
 *
 * @returns the path of the checkpoint, and of the written one
 * @throws ConfigurationError MTL_OPTION, MTL_FINE_TUNING_CONVERT; CheckpointError MTL_CHECKPOINT_*,
 *   MTL_MEGATRON_CHECKPOINT
 */
export async function checkpointToMegatron(options: {
  /** A directory of checkpoints of a GPT or a BERT. */
  readonly load: string;
  /** The iteration. Default: the newest whole checkpoint. */
  readonly checkpointStep?: number | undefined;
  /** New or empty. */
  readonly directory: string;
  /** Dtype that weights are stored as. Default F32. */
  readonly dtype?: WritableDtype | undefined;
  readonly onNotice: (notice: string) => void;
}): Promise<{ readonly path: string; readonly written: string }> {
  checkOptions(options, { of: 'checkpointToMegatron', checks });
  const { directory, dtype } = options;
  const { checkpoint, configuration, place } = await openSavedCheckpoint(options);
  const { path } = checkpoint;
  if ('fineTuning' in configuration) {
    throw new ConfigurationError('MTL_FINE_TUNING_CONVERT', `${path} is of a fine-tuning`, {
      expected: 'a checkpoint of a pretraining',
    });
  }
  const saved = readAnySavedConfiguration(configuration, place);
  checkSavedWeights(checkpoint, saved);
  const { kind, model, lora } = saved;
  const { progress } = readTrainingState(checkpoint.state, path);
  const weights = savedWeights(checkpoint);
  const written = await writeMegatron({
    directory,
    kind,
    dtype,
    model: model as GptModelConfiguration | BertModelConfiguration,
    tensors: lora ? mergedWeights(weights, { model: model as GptModelConfiguration, lora }) : weights,
    iteration: progress.iteration,
    consumedSamples: progress.consumedSamples,
  });
  return { path, written };
}

interface CheckpointToLoraOptions {
  /** A directory of checkpoints of a run with --lora-rank. */
  readonly load: string;
  /** The iteration; default the newest whole checkpoint. */
  readonly checkpointStep?: number | undefined;
  /** New or empty. */
  readonly directory: string;
  readonly onNotice: (notice: string) => void;
}

/**
 * Writes the low-rank adapters of a checkpoint, whatever layout saved it, as PEFT loads them.
 *
 * @returns the path of the checkpoint
 * @throws ConfigurationError MTL_OPTION; CheckpointError MTL_CHECKPOINT_LORA for a checkpoint without
 *   adapters, MTL_CHECKPOINT_*, MTL_HUGGING_FACE_*
 */
export async function checkpointToLora(options: CheckpointToLoraOptions): Promise<string> {
  checkOptions(options, { of: 'checkpointToLora', checks: checksOfLora });
  const { directory } = options;
  const { checkpoint, configuration, place } = await openSavedCheckpoint(options);
  const { path } = checkpoint;
  const saved = readSavedConfiguration('gpt', configuration, place);
  const { model, lora, flags } = saved;
  if (lora === undefined) {
    throw new CheckpointError('MTL_CHECKPOINT_LORA', `${path} has no adapters`, {
      expected: 'a checkpoint of a run with --lora-rank',
      remedy: 'write its weights with --save-hf DIR',
      exitCode: 2,
    });
  }
  checkSavedWeights(checkpoint, saved);
  const tensors = savedWeights(checkpoint);
  await writeLoraDirectory({ directory, model, lora, tensors, baseModel: flags?.['load-hf'] });
  return path;
}

const dtypes: Readonly<Record<string, WritableDtype>> = { bfloat16: 'BF16', float16: 'F16' };

/** Returns the dtype of a model's weights where it came from; F32 where nothing says it. */
export function dtypeOfOrigin(origin: HuggingFaceOrigin | undefined): WritableDtype {
  const { dtype, torch_dtype: former } = origin?.config ?? {};
  return dtypes[String(dtype ?? former)] ?? 'F32';
}
