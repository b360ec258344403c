import type { ModelKind } from '@mtl/configuration';
import type { TokenizerOptions } from '@mtl/data';
import { huggingFaceModelKind } from '@mtl/formats';
import { recipeOf } from '@mtl/run-parts/internal';
import { refuseCheckpoints } from '../checkpoints/refuse-checkpoints.js';
import { tokenizerOfHuggingFace } from '../tokenizers/tokenizer-of-hugging-face.js';
import { beginCheckpoint, configurationOfWholeModel } from './begin-checkpoint.js';

/** A checkpoint that was begun. */
export interface BegunCheckpoint {
  readonly path: string;
  readonly kind: ModelKind;
  /** The tokenizer that came with the model, if one did. */
  readonly tokenizer: TokenizerOptions | undefined;
  readonly vocabularySize: number;
  /** What transformers calls the kind of the model, such as `gpt2`. */
  readonly modelType: unknown;
}

/**
 * Begins a directory of checkpoints with the weights of a directory of the transformers library, a GPT-2, a
 * Llama or a model after it, or a BERT with the heads of its pretraining: iteration 0, a fresh optimizer.
 *
 * @throws CheckpointError MTL_CHECKPOINT_EXISTS when there are checkpoints already; MTL_HUGGING_FACE_*
 */
export async function huggingFaceToCheckpoint(options: {
  readonly loadHuggingFace: string;
  readonly directory: string;
  readonly onNotice: (notice: string) => void;
}): Promise<BegunCheckpoint> {
  const { loadHuggingFace, directory, onNotice } = options;
  await refuseCheckpoints(directory, { remedy: 'choose another name' });
  const kind: ModelKind = await huggingFaceModelKind(loadHuggingFace);
  const found = await recipeOf({ kind }).openHuggingFace(configurationOfWholeModel(kind), loadHuggingFace);
  for (const notice of found.notices ?? []) onNotice(notice);
  const { configuration: model, origin, load } = found;
  const tokenizer = tokenizerOfHuggingFace(found.tokenizerFiles);
  const path = await beginCheckpoint(directory, {
    kind,
    model,
    load,
    origin,
    tokenizerOptions: tokenizer,
    refused: {
      code: 'MTL_HUGGING_FACE_CONFIG',
      remedy: `use ${loadHuggingFace} as it is, with --load-hf`,
    },
  });
  const modelType = origin?.config.model_type;
  return { path, kind, tokenizer, vocabularySize: model.vocabularySize, modelType };
}
