import { existsSync, readdirSync } from 'node:fs';
import type { Tokenizer } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import { type GptModelConfiguration, type HuggingFaceGpt2, readHuggingFaceGpt2 } from '@mtl/models';
import type { GptConfiguration } from '../gpt-configuration.js';
import { gptModelConfiguration } from './gpt-model-configuration.js';

/** Opens what --load-hf names, and checks before the run that --save-hf can be written after it. */
export async function openHuggingFace({
  checkpoint,
  model,
}: GptConfiguration): Promise<HuggingFaceGpt2 | undefined> {
  const { loadHuggingFace, saveHuggingFace } = checkpoint;
  if (
    saveHuggingFace !== undefined &&
    existsSync(saveHuggingFace) &&
    readdirSync(saveHuggingFace).length > 0
  ) {
    throw new ConfigurationError(
      'MTL_HUGGING_FACE_EXISTS',
      `--save-hf ${saveHuggingFace} holds files already`,
      {
        expected: 'a new or an empty directory',
      },
    );
  }
  if (loadHuggingFace === undefined) return undefined;
  return await readHuggingFaceGpt2({
    directory: loadHuggingFace,
    makeVocabularySizeDivisibleBy: model.makeVocabSizeDivisibleBy,
  });
}

/** The architecture to train: that of the flags and the tokenizer, or that of --load-hf with the flags' dropout. */
export function trainingModel(
  { model: flags }: GptConfiguration,
  { tokenizer, huggingFace }: { tokenizer: Tokenizer; huggingFace: HuggingFaceGpt2 | undefined },
): GptModelConfiguration {
  if (huggingFace === undefined) return gptModelConfiguration(flags, tokenizer.vocabularySize);
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
      { expected: `at most ${configuration.maxPositionEmbeddings}` },
    );
  }
  return {
    ...configuration,
    hiddenDropout: flags.hiddenDropout,
    attentionDropout: flags.attentionDropout,
  };
}
