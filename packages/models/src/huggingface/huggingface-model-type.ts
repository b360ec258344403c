import { openHuggingFaceDirectory } from './open-huggingface-directory.js';

/**
 * What config.json of a directory of the transformers library calls its kind of model: `gpt2`, `bert` ...
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG when config.json is missing, broken or does not say
 */
export async function huggingFaceModelType(directory: string): Promise<string> {
  const { fields } = await openHuggingFaceDirectory(directory);
  return fields.required<string>('model_type', 'a string');
}
