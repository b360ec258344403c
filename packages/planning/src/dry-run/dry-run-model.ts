import type { PretrainingConfiguration } from '@mtl/configuration';
import { createTokenizer } from '@mtl/data';
import type { TransformerConfiguration } from '@mtl/models';
import { openHuggingFace, trainingModel } from '@mtl/run-parts/internal';

/** Tokens of the bundled corpus, whose tokenizer exists only once it is prepared. */
const bundledVocabularySize = 4096;

/** The model of a training run whose data are not opened. */
export interface DryRunModel {
  /** Tokens, padding not included. */
  readonly vocabularySize: number;
  readonly model: TransformerConfiguration;
}

/** Files of a tokenizer are read only where nothing else gives the size of the vocabulary. */
export async function dryRunModel(configuration: PretrainingConfiguration): Promise<DryRunModel> {
  const vocabularySize = await vocabularySizeOf(configuration);
  const huggingFace = await openHuggingFace(configuration);
  return {
    vocabularySize,
    model: trainingModel(configuration, { tokenizer: { vocabularySize }, huggingFace }),
  };
}

async function vocabularySizeOf({ data, model }: PretrainingConfiguration): Promise<number> {
  if (model.vocabularySize !== undefined) return model.vocabularySize;
  if (data.tokenizer === undefined) return bundledVocabularySize;
  return (await createTokenizer(data.tokenizer)).vocabularySize;
}
