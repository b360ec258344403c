import { SafetensorsDirectory } from '@mtl/checkpoint';
import { type ConfigField, nameOfField } from './config-fields.js';
import { isConfigurationAlone } from './is-configuration-alone.js';
import type { JsonFields } from './json-fields.js';
import { resolveNames, type WeightNames } from './mapped-weights.js';
import { chooseTerms, type WeightFiles, weightsRefused } from './weight-files.js';

/** Matches the names of router weights, which have one row per expert. */
const router = /\.(?:gate|router)\.weight$/;

/**
 * Compares the sizes in a configuration with the shapes of the weights, before tensors of these sizes are
 * allocated. Without this check, a size with a wrong digit could exhaust memory.
 *
 * @throws CheckpointError with the code that `chooseTerms` gives for `weights`: MTL_HUGGING_FACE_WEIGHTS or
 *   the code of a different format
 */
export function checkWeightSizes(options: {
  readonly weights: WeightFiles;
  /** The fields of the file that contains the sizes, and the table that describes these fields. */
  readonly stated: { readonly fields: JsonFields; readonly table: readonly ConfigField[] };
  readonly numLayers: number;
  /** The number of experts in a layer. Default: no experts. */
  readonly numExperts?: number | undefined;
  readonly vocabularySize: number;
  readonly hiddenSize: number;
  /** The name, without prefix, of the embedding [vocabularySize, hiddenSize]. */
  readonly embedding: string;
  readonly naming: Pick<WeightNames, 'prefix' | 'canonical' | 'copies'>;
  /**
   * Returns the names of all weights, given the tensor names in the files. Called only after the number of
   * layers has been found plausible and the number of experts and the embedding's shape have matched the
   * weights.
   */
  readonly names: (tensors: Iterable<string>) => WeightNames;
}): void {
  const { weights, numLayers, numExperts, vocabularySize, hiddenSize, embedding, naming, names } = options;
  const { fields, table: fieldTable } = options.stated;
  const declared = (key: string, count: string): string =>
    `${chooseTerms(weights).configuration} declares ${count} (${nameOfField(fields, fieldTable, key)})`;
  if (numLayers > weights.tensors.size) {
    const { size } = weights.tensors;
    throw weightsRefused(
      weights,
      `${declared('numLayers', `${numLayers} layers`)}, the weights are ${size} tensors`,
    );
  }
  if (numExperts !== undefined) checkExperts({ weights, numExperts, declared });
  const table = { sources: [{ name: embedding, shape: [vocabularySize, hiddenSize] }] };
  resolveNames(weights, { ...naming, mappings: [table], isIgnored: () => true });
  resolveNames(weights, names(weights.tensors.keys()));
}

function checkExperts(options: {
  readonly weights: WeightFiles;
  readonly numExperts: number;
  readonly declared: (key: string, count: string) => string;
}): void {
  const { weights, numExperts, declared } = options;
  const routers = [...weights.tensors].filter(([name]) => router.test(name));
  const experts = declared('numExperts', `${numExperts} experts`);
  if (routers.length === 0) throw weightsRefused(weights, `${experts}, the weights have no router`);
  const other = routers.find(([, { shape }]) => shape[0] !== numExperts);
  if (other === undefined) return;
  const [name, { shape }] = other;
  throw weightsRefused(
    weights,
    `${name} has the shape [${shape.join(', ')}], ${experts}`,
    `[${[numExperts, ...shape.slice(1)].join(', ')}]`,
  );
}

/**
 * Compares the sizes in config.json with the headers of the directory's weights. Does nothing if
 * `isConfigurationAlone` is true, because there are no weights.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_WEIGHTS, MTL_SAFETENSORS_*
 */
export async function checkHuggingFaceWeights({
  directory,
  ...sizes
}: Omit<Parameters<typeof checkWeightSizes>[0], 'weights'> & { readonly directory: string }): Promise<void> {
  if (isConfigurationAlone(directory)) return;
  const weights = await SafetensorsDirectory.open(directory);
  try {
    checkWeightSizes({ ...sizes, weights });
  } finally {
    await weights.close();
  }
}
