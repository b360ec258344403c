import type { PythonJsonValue } from '../python/json.js';
import type { SampleIndexPart, SampleIndexSettings } from './sample-index-options.js';
import { splitMatrixIdentifier } from './split.js';

/**
 * What the text whose md5 names a dataset's cache files begins with, as Megatron composes it for every class.
 */
export function datasetIdentifiers(
  className: string,
  options: SampleIndexSettings & SampleIndexPart,
): Record<string, PythonJsonValue> {
  const splitWeights = options.splitWeights ?? '1';
  return {
    class: className,
    dataset_path: options.prefix,
    num_samples: options.numSamples ?? null,
    index_split: options.split,
    random_seed: options.seed,
    sequence_length: options.sequenceLength,
    split: splitWeights,
    split_matrix: splitMatrixIdentifier(splitWeights),
    tokenizer: options.tokenizerIdentifiers ?? null,
  };
}
