import { checkSupported } from './check-supported.js';
import { type HuggingFaceModelKind, modelTypeOf } from './model-types.js';
import { openHuggingFaceDirectory } from './open-huggingface-directory.js';

/**
 * The kind of the model of a directory of the transformers library, by what config.json calls it.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG when config.json is missing or broken, or describes a model
 *   that is not supported, with what it needs
 */
export async function huggingFaceModelKind(directory: string): Promise<HuggingFaceModelKind> {
  const { fields } = await openHuggingFaceDirectory(directory);
  checkSupported(fields);
  // checked above
  return modelTypeOf(fields.required('model_type', 'a string'))!.kind;
}
