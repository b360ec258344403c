import { SafetensorsDirectory } from '@mtl/checkpoint';
import { checkWeightSizes } from './check-weight-sizes.js';

/**
 * Compares the sizes of config.json with the headers of the weights of its directory.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_WEIGHTS, MTL_SAFETENSORS_*
 */
export async function checkHuggingFaceWeights({
  directory,
  ...sizes
}: Omit<Parameters<typeof checkWeightSizes>[0], 'weights'> & { readonly directory: string }): Promise<void> {
  const weights = await SafetensorsDirectory.open(directory);
  try {
    checkWeightSizes({ ...sizes, weights });
  } finally {
    await weights.close();
  }
}
