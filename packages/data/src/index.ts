export { IndexedDataset, type SequenceSlice } from './indexed/indexed-dataset.js';
export {
  type IndexedDatasetSummary,
  IndexedDatasetWriter,
  type IndexedDatasetWriterOptions,
} from './indexed/indexed-dataset-writer.js';
export { type IndexedDatasetInspection, inspectIndexedDataset } from './indexed/inspect-indexed-dataset.js';
export { type MergeIndexedDatasetsOptions, mergeIndexedDatasets } from './indexed/merge-indexed-datasets.js';
export { type TokenArray, type TokenDtype, tokenDtypeForVocabulary } from './indexed/token-dtype.js';
export {
  type IndexedDatasetVerification,
  type VerifyIndexedDatasetOptions,
  verifyIndexedDataset,
} from './indexed/verify-indexed-dataset.js';
export { MersenneTwister } from './random/mersenne-twister.js';
export { MersenneTwister64 } from './random/mersenne-twister-64.js';
export { RandomState, type Shufflable } from './random/random-state.js';
