import { checkSupported } from './check-supported.js';
import type { ModelTypeName } from './model-types.js';
import { openHuggingFaceDirectory } from './open-huggingface-directory.js';

/**
 * What config.json of a directory of the transformers library calls its kind of model.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG when config.json is missing or broken, or describes a model
 *   that is not supported, with what it needs
 */
export async function huggingFaceModelType(directory: string): Promise<ModelTypeName> {
  const { fields } = await openHuggingFaceDirectory(directory);
  checkSupported(fields);
  return fields.required<ModelTypeName>('model_type', 'a string');
}
