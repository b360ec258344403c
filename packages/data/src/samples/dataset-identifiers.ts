import type { PythonJsonValue } from './python-json.js';
import { type SplitName, splitMatrixIdentifier } from './split.js';

export interface IdentifiedDataset {
  readonly prefix: string;
  readonly split: SplitName;
  readonly splitWeights?: string | undefined;
  readonly numSamples?: number | undefined;
  readonly sequenceLength: number;
  readonly seed: number;
  readonly tokenizerIdentifiers?: PythonJsonValue;
}

/** What the text whose md5 names a dataset's cache files begins with, as Megatron composes it for every class. */
export function datasetIdentifiers(
  className: string,
  options: IdentifiedDataset,
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
