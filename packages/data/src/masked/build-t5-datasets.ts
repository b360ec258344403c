import {
  buildSplitDatasets,
  type SplitDatasets,
  type SplitDatasetsOptions,
} from '../samples/build-split-datasets.js';
import type { SpanTokenBatch } from './span-token-batch.js';
import { openT5Dataset, type T5DatasetSettings, t5DatasetIdentifiers } from './t5-dataset.js';

/** The datasets of a T5 run. */
export interface T5DatasetsOptions
  extends Omit<T5DatasetSettings, 'cacheDirectory' | 'splitWeights' | 'onCacheEvent'>,
    SplitDatasetsOptions {}

/** Opens train, valid and test of one dataset or a blend, with Megatron's rules for sizes and surplus. */
export function buildT5Datasets(options: T5DatasetsOptions): SplitDatasets<SpanTokenBatch> {
  return buildSplitDatasets(options, {
    open: (part) => openT5Dataset({ ...options, ...part }),
    identifiers: (part) => t5DatasetIdentifiers({ ...options, ...part }),
  });
}
