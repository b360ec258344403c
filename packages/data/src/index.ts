// the batch types have moved to @mtl/layout; this package still exports them for one more version
export type {
  /** @deprecated Import it from @mtl/layout. */
  MaskedTokenBatch,
  /** @deprecated Import it from @mtl/layout. */
  NumberedBatch,
} from '@mtl/layout';
export { BadLines } from './corpora/corpus-error.js';
export { type CorpusFiles, corpusFileNames, corpusFiles, readDocuments } from './corpora/corpus-files.js';
export { type PrepareSummary, prepareDataset } from './corpora/prepare-dataset.js';
export { createSentenceSplitter } from './corpora/sentence-splitter.js';
export { IndexedDataset } from './indexed/indexed-dataset.js';
export { IndexedDatasetWriter, mergeIndexedDatasets } from './indexed/indexed-dataset-writer.js';
export {
  type IndexedDatasetInspection,
  inspectIndexedDataset,
  verifyIndexedDataset,
} from './indexed/verify-indexed-dataset.js';
export { type BatchLoaderOptions, createBatchLoader } from './loading/batch-loader.js';
export { buildBertDatasets, openBertDataset } from './masked/bert-dataset.js';
export { specialTokenId } from './masked/masking.js';
export { RandomState } from './random/random-state.js';
export type { SplitDatasets, SplitDatasetsOptions } from './samples/build-split-datasets.js';
export { parseDataPath } from './samples/data-path.js';
export { type SplitName, splitNames, splitSequences } from './samples/dataset-part.js';
export { buildGptDatasets, openGptDataset } from './samples/gpt-dataset.js';
export { type MicroBatchSamplerOptions, sampleMicroBatches } from './samples/micro-batch-sampler.js';
export { mockDataBlend } from './samples/mock-sequences.js';
export type { SampleDataset } from './samples/sample-dataset.js';
export { sharedCopy, TaskDataset, TaskSequences } from './samples/task-dataset.js';
