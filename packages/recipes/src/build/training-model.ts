import type { Tokenizer } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import type { TransformerConfiguration } from '@mtl/models';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import { checkHuggingFaceTarget } from './check-hugging-face-target.js';
import type { HuggingFaceModel } from './model-recipe.js';
import { recipeOf } from './recipe-of.js';

/** Opens what --load-hf names, and checks before the run that --save-hf can be written after it. */
export async function openHuggingFace(
  configuration: PretrainingConfiguration,
): Promise<HuggingFaceModel<TransformerConfiguration> | undefined> {
  const { loadHuggingFace, saveHuggingFace } = configuration.checkpoint;
  if (saveHuggingFace !== undefined) checkHuggingFaceTarget(saveHuggingFace);
  if (loadHuggingFace === undefined) return undefined;
  return await recipeOf(configuration).openHuggingFace(configuration, loadHuggingFace);
}

/**
 * The architecture to train: that of the flags and the tokenizer, or that of --load-hf with the flags'
 * dropout.
 */
export function trainingModel(
  run: PretrainingConfiguration,
  options: {
    readonly tokenizer: Tokenizer;
    readonly huggingFace: HuggingFaceModel<TransformerConfiguration> | undefined;
  },
): TransformerConfiguration {
  const { tokenizer, huggingFace } = options;
  const { model: flags } = run;
  if (huggingFace === undefined) return recipeOf(run).modelOf(run, tokenizer.vocabularySize);
  const { configuration, directory } = huggingFace;
  if (tokenizer.vocabularySize > configuration.vocabularySize) {
    throw new ConfigurationError(
      'MTL_TOKENIZER_MODEL',
      `the tokenizer has ${tokenizer.vocabularySize} tokens, ${directory} only ${configuration.vocabularySize}`,
      { expected: 'the tokenizer that the model was trained with' },
    );
  }
  if (flags.sequenceLength > configuration.maxPositionEmbeddings) {
    throw new ConfigurationError(
      'MTL_SEQUENCE_LENGTH',
      `--seq-length ${flags.sequenceLength} with ${directory}, which has ${configuration.maxPositionEmbeddings} positions`,
      {
        expected: `at most ${configuration.maxPositionEmbeddings}`,
        remedy: `pass --seq-length ${configuration.maxPositionEmbeddings}`,
      },
    );
  }
  return {
    ...configuration,
    hiddenDropout: flags.hiddenDropout,
    attentionDropout: flags.attentionDropout,
  };
}
