import { SafetensorsDirectory } from '@mtl/checkpoint';
import { resolveNames, type WeightNames } from './mapped-weights.js';
import { termsOf, type WeightFiles, weightsRefused } from './weight-files.js';

/**
 * Compares the sizes of an architecture with the shapes of the weights, before anything of these sizes is
 * made: a wrong digit would take all memory before the shapes are found not to fit.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_WEIGHTS, or the code of the files
 */
export function checkWeightSizes(options: {
  readonly weights: WeightFiles;
  readonly numLayers: number;
  readonly vocabularySize: number;
  readonly hiddenSize: number;
  /** The name of the embedding [vocabularySize, hiddenSize], without prefix. */
  readonly embedding: string;
  readonly naming: Pick<WeightNames, 'prefix' | 'canonical' | 'copies'>;
  /**
   * All names, of files with these tensors; called when the number of layers and the hidden size are those of
   * the weights.
   */
  readonly names: (tensors: Iterable<string>) => WeightNames;
}): void {
  const { weights, numLayers, vocabularySize, hiddenSize, embedding, naming, names } = options;
  if (numLayers > weights.tensors.size) {
    const declared = `${termsOf(weights).configuration} declares ${numLayers} layers`;
    throw weightsRefused(weights, `${declared}, the weights are ${weights.tensors.size} tensors`);
  }
  const table = { sources: [{ name: embedding, shape: [vocabularySize, hiddenSize] }] };
  resolveNames(weights, { ...naming, mappings: [table], isIgnored: () => true });
  resolveNames(weights, names(weights.tensors.keys()));
}

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
