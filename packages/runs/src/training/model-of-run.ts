import { checkHuggingFaceArchitecture } from '@mtl/configuration';
import type { Tokenizer } from '@mtl/data';
import type { TransformerConfiguration } from '@mtl/models';
import { trainingModel } from '@mtl/run-parts/internal';
import type { OpenedRun } from './open-run.js';
import { timeMatmulsOfRun } from './time-matmuls-of-run.js';

/**
 * The architecture that a run trains, checked against what it is to be written as; with --time-matmuls its
 * matmuls are timed. All ranks call it.
 *
 * @throws those of `trainingModel` and `timeMatmulsOfRun`; ConfigurationError MTL_HUGGING_FACE_*
 */
export async function modelOfRun(
  { configuration, huggingFace, processes, onMessage }: OpenedRun,
  { data: { tokenizer } }: { readonly data: { readonly tokenizer: Pick<Tokenizer, 'vocabularySize'> } },
): Promise<TransformerConfiguration> {
  const model = trainingModel(configuration, { tokenizer, huggingFace });
  if (configuration.checkpoint.saveHuggingFace !== undefined)
    checkHuggingFaceArchitecture({ kind: configuration.kind, model });
  await timeMatmulsOfRun(configuration, { model, processes, onMessage, variables: process.env });
  return model;
}
