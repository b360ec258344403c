import {
  buildSplitDatasets,
  type SplitDatasets,
  type SplitDatasetsOptions,
} from '../samples/build-split-datasets.js';
import { type BertDatasetSettings, bertDatasetIdentifiers, openBertDataset } from './bert-dataset.js';
import type { MaskedTokenBatch } from './masked-token-batch.js';

/** The datasets of a BERT run. */
export interface BertDatasetsOptions
  extends Omit<BertDatasetSettings, 'cacheDirectory' | 'splitWeights' | 'onCacheEvent'>,
    SplitDatasetsOptions {}

/** Opens train, valid and test of one dataset or a blend, with Megatron's rules for sizes and surplus. */
export function buildBertDatasets(options: BertDatasetsOptions): SplitDatasets<MaskedTokenBatch> {
  return buildSplitDatasets(options, {
    open: (part) => openBertDataset({ ...options, ...part }),
    identifiers: (part) => bertDatasetIdentifiers({ ...options, ...part }),
  });
}
