import { SafetensorsDirectory } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import { resolveNames, type WeightNames } from './mapped-weights.js';

/**
 * Compares the sizes of config.json with the headers of the weights, before anything of these sizes is made:
 * a wrong digit would take all memory before the shapes are found not to fit.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_WEIGHTS, MTL_SAFETENSORS_*
 */
export async function checkHuggingFaceWeights(options: {
  readonly directory: string;
  readonly numLayers: number;
  readonly vocabularySize: number;
  readonly hiddenSize: number;
  /** The name of the embedding [vocabularySize, hiddenSize], without prefix. */
  readonly embedding: string;
  readonly naming: Pick<WeightNames, 'prefix' | 'canonical'>;
  /** All names; called when the number of layers and the hidden size are those of the weights. */
  readonly names: () => WeightNames;
}): Promise<void> {
  const { directory, numLayers, vocabularySize, hiddenSize, embedding, naming, names } = options;
  const weights = await SafetensorsDirectory.open(directory);
  try {
    if (numLayers > weights.tensors.size) {
      throw new CheckpointError(
        'MTL_HUGGING_FACE_WEIGHTS',
        `${directory}: config.json declares ${numLayers} layers, the weights are ${weights.tensors.size} tensors`,
        { remedy: 'use the weights and the config.json of one and the same model', exitCode: 2 },
      );
    }
    const table = { sources: [{ name: embedding, shape: [vocabularySize, hiddenSize] }] };
    resolveNames(weights, { ...naming, mappings: [table], isIgnored: () => true });
    resolveNames(weights, names());
  } finally {
    await weights.close();
  }
}
