import { DataError } from '@mtl/errors';
import { indexedDatasetPaths } from './index-layout.js';
import { IndexedDataset } from './indexed-dataset.js';
import { type IndexedDatasetSummary, IndexedDatasetWriter } from './indexed-dataset-writer.js';

/** Which datasets to join, in order. */
export interface MergeIndexedDatasetsOptions {
  /** Prefixes of the datasets. */
  readonly inputs: readonly string[];
  /** Prefix of the result. */
  readonly output: string;
  /** Called after each input. */
  readonly onProgress?: (progress: {
    readonly done: number;
    readonly total: number;
    readonly prefix: string;
  }) => void;
}

/**
 * Joins datasets of one element type into one, as Megatron's merge does: lengths and tokens one after
 * another, document boundaries moved on. Streams: memory is bounded by the largest .idx file.
 */
export function mergeIndexedDatasets(options: MergeIndexedDatasetsOptions): IndexedDatasetSummary {
  const { inputs, output, onProgress } = options;
  const outputPrefix = indexedDatasetPaths(output).prefix;
  if (inputs.length === 0) {
    throw new DataError('MTL_DATA_MERGE', 'no datasets to merge', {
      expected: 'at least one dataset prefix',
    });
  }
  if (inputs.some((input) => indexedDatasetPaths(input).prefix === outputPrefix)) {
    throw new DataError('MTL_DATA_MERGE', `the output ${outputPrefix} is one of the inputs`, {
      remedy: 'give the merged dataset a prefix of its own',
    });
  }
  let writer: IndexedDatasetWriter | undefined;
  try {
    for (const [done, prefix] of inputs.entries()) {
      using dataset = IndexedDataset.open(prefix);
      writer ??= new IndexedDatasetWriter({
        prefix: output,
        dtype: dataset.dtype,
        multimodal: dataset.sequenceModes !== undefined,
      });
      writer.addDataset(dataset);
      onProgress?.({ done: done + 1, total: inputs.length, prefix });
    }
    return writer!.finish();
  } finally {
    writer?.discard();
  }
}
