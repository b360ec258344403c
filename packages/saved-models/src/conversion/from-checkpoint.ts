import { checkHuggingFaceArchitecture, readAnySavedConfiguration } from '@mtl/configuration';
import { createTokenizer } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import { mergedWeights, type WritableDtype } from '@mtl/formats';
import type { GptModelConfiguration } from '@mtl/models';
import { recipeOf } from '@mtl/run-parts/internal';
import { checkSavedWeights } from '../checkpoints/check-saved-weights.js';
import { openSavedCheckpoint } from '../checkpoints/open-saved-checkpoint.js';
import { savedWeights } from '../checkpoints/saved-weights.js';
import { exportedTokenizerFiles } from '../tokenizers/exported-tokenizer-files.js';
import { dtypeOfOrigin } from './dtype-of-origin.js';

export interface CheckpointToHuggingFaceOptions {
  /** A directory of checkpoints of a GPT or a BERT. */
  readonly load: string;
  /** The iteration; default the newest whole checkpoint. */
  readonly checkpointStep?: number | undefined;
  /** New or empty. */
  readonly directory: string;
  /**
   * What weights are stored as. Default: as in the directory that the model came from, of a model that was
   * trained from nothing F32.
   */
  readonly dtype?: WritableDtype | undefined;
  readonly onNotice: (notice: string) => void;
}

/**
 * Writes the weights of a checkpoint, whatever layout saved it, as a directory of the transformers library,
 * with the tokenizer's files; low-rank adapters are merged into them. Tensors are read as their turn comes;
 * the whole model is never in memory.
 *
 * @returns the path of the checkpoint, and what weights are stored as
 * @throws ConfigurationError MTL_HUGGING_FACE_LAYER_NORM, MTL_HUGGING_FACE_ARCHITECTURE,
 *   MTL_FINE_TUNING_CONVERT; CheckpointError MTL_CHECKPOINT_*, MTL_HUGGING_FACE_*
 */
export async function checkpointToHuggingFace(
  options: CheckpointToHuggingFaceOptions,
): Promise<{ readonly path: string; readonly dtype: WritableDtype }> {
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
  if (Object.keys(tokenizerFiles).length === 0) {
    onNotice(`the ${tokenizer?.name ?? 'tokenizer'} has no files of its own: none were written`);
  }
  return { path, dtype };
}
