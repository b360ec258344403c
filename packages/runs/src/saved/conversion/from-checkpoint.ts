import { checkHuggingFaceArchitecture, readAnySavedConfiguration } from '@mtl/configuration/saved';
import { ConfigurationError } from '@mtl/errors';
import { checkOptions, type OptionChecks, required, textOption } from '@mtl/errors/options';
import { type HuggingFaceOrigin, type WritableDtype, writeMegatron } from '@mtl/formats';
import type { BertModelConfiguration, GptModelConfiguration } from '@mtl/models';
import { createTokenizer } from '@mtl/tokenizers';
import { readTrainingState } from '@mtl/trainer';
import { findRecipe } from '../../parts/models/find-recipe.js';
import { checkSavedWeights } from '../checkpoints/check-saved.js';
import { openSavedCheckpoint } from '../checkpoints/open-saved-checkpoint.js';
import { savedWeights } from '../checkpoints/saved-weights.js';
import { noticesOption, storedDtypeOption } from '../option-checks.js';
import { exportedTokenizerNotice } from '../tokenizers/exported-tokenizer-notice.js';
import { exportedTokenizerFiles } from '../tokenizers/hugging-face-tokenizers.js';
import { type CheckpointSource, checkpointSourceChecks } from './model-source.js';

interface CheckpointToHuggingFaceOptions extends CheckpointSource {
  /** New or empty. */
  readonly directory: string;
  /**
   * The dtype of the stored weights. Default: the dtype in the model's original directory, or F32 for a model
   * that was trained from scratch.
   */
  readonly dtype?: WritableDtype | undefined;
  readonly onNotice: (notice: string) => void;
}

const checks: OptionChecks<CheckpointToHuggingFaceOptions> = {
  ...checkpointSourceChecks,
  directory: required(textOption),
  onNotice: required(noticesOption),
  dtype: storedDtypeOption,
};

/**
 * Writes the weights of a checkpoint as a transformers directory, with the tokenizer's files. The checkpoint
 * may have been saved with any layout. Low-rank adapters are merged into the weights. Tensors are read one by
 * one, so that the whole model is never in memory.
 *
 * @returns the path of the checkpoint, and the dtype of the stored weights
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
  const { kind, model, tokenizer: tokenizerOptions, huggingFace: origin } = saved;
  const dtype = options.dtype ?? dtypeOfOrigin(origin);
  const recipe = findRecipe({ kind });
  checkHuggingFaceArchitecture({ kind, model });
  const tokenizer = tokenizerOptions && (await createTokenizer(tokenizerOptions));
  const tokenizerFiles = await exportedTokenizerFiles(tokenizerOptions, model);
  const weights = savedWeights(checkpoint);
  const tensors = recipe.adapters.merged(saved, { model, tensors: weights });
  await recipe.saveHuggingFace({ directory, model, tensors, tokenizer, tokenizerFiles, dtype, origin });
  const notice = await exportedTokenizerNotice(directory, tokenizer);
  if (notice !== undefined) onNotice(notice);
  if (Object.keys(tokenizerFiles).length === 0) {
    onNotice(`the ${tokenizer?.name ?? 'tokenizer'} has no files of its own: none were written`);
  }
  return { path, dtype };
}

/**
 * Writes the weights of a checkpoint as a Megatron-LM checkpoint in the format `torch_dist`. The source
 * checkpoint may have been saved with any layout. Low-rank adapters are merged into the weights. Tensors are
 * read one by one, so that the whole model is never in memory.
 *
 * @returns the paths of the source checkpoint and of the written checkpoint
 * @throws ConfigurationError MTL_OPTION, MTL_FINE_TUNING_CONVERT; CheckpointError MTL_CHECKPOINT_*,
 *   MTL_MEGATRON_CHECKPOINT
 */
export async function checkpointToMegatron(
  options: CheckpointSource & {
    /** New or empty. */
    readonly directory: string;
    /** Dtype of the stored weights. Default F32. */
    readonly dtype?: WritableDtype | undefined;
    readonly onNotice: (notice: string) => void;
  },
): Promise<{ readonly path: string; readonly written: string }> {
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
  const { kind, model } = saved;
  const { progress } = readTrainingState(checkpoint.state, path);
  const weights = savedWeights(checkpoint);
  const written = await writeMegatron({
    directory,
    kind,
    dtype,
    model: model as GptModelConfiguration | BertModelConfiguration,
    tensors: findRecipe({ kind }).adapters.merged(saved, { model, tensors: weights }),
    iteration: progress.iteration,
    consumedSamples: progress.consumedSamples,
  });
  return { path, written };
}

const dtypes: Readonly<Record<string, WritableDtype>> = { bfloat16: 'BF16', float16: 'F16' };

/** Returns the dtype of the weights in a model's original directory; F32 if the dtype is unknown. */
export function dtypeOfOrigin(origin: HuggingFaceOrigin | undefined): WritableDtype {
  const { dtype, torch_dtype: former } = origin?.config ?? {};
  return dtypes[String(dtype ?? former)] ?? 'F32';
}
