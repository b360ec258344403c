export { BadLines } from './corpora/corpus-error.js';
export { type CorpusFiles, corpusFileNames, corpusFiles, readDocuments } from './corpora/corpus-files.js';
export { type PrepareSummary, prepareDataset } from './corpora/prepare-dataset.js';
export { fileProblem, readRegularFile } from './files/regular-files.js';
export { writeFileAtomically } from './files/write-files.js';
export { IndexedDataset } from './indexed/indexed-dataset.js';
export { IndexedDatasetWriter, mergeIndexedDatasets } from './indexed/indexed-dataset-writer.js';
export {
  type IndexedDatasetInspection,
  inspectIndexedDataset,
  verifyIndexedDataset,
} from './indexed/verify-indexed-dataset.js';
export { type BatchLoaderOptions, createBatchLoader } from './loading/batch-loader.js';
export { buildBertDatasets, openBertDataset } from './masked/bert-dataset.js';
export { type MaskedTokenBatch, mostRoomForMasked } from './masked/masked-token-batch.js';
export { maskingVocabulary } from './masked/masking.js';
export type { SplitDatasets, SplitDatasetsOptions } from './samples/build-split-datasets.js';
export { checkNoWeightAmongPrefixes, parseDataPath } from './samples/data-path.js';
export { type SplitName, splitNames, splitSequences } from './samples/dataset-part.js';
export { buildGptDatasets, openGptDataset } from './samples/gpt-dataset.js';
export { type MicroBatchSamplerOptions, sampleMicroBatches } from './samples/micro-batch-sampler.js';
export { mockDataBlend } from './samples/mock-sequences.js';
export {
  createSampleBatch,
  documentsOfSamples,
  type NumberedBatch,
  type SampleBatch,
  type SampleDataset,
} from './samples/sample-dataset.js';
export type { TrainingProgress } from './tokenizer-training/learn-merges.js';
export { trainByteLevelBpe, writeTokenizerJson } from './tokenizer-training/train-byte-level-bpe.js';
export { trainWordPiece, writeVocabularyText } from './tokenizer-training/train-word-piece.js';
export { createTokenizer } from './tokenizers/create-tokenizer.js';
export { exportTokenizer } from './tokenizers/export-tokenizer.js';
export { type Tokenizer, type TokenizerOptions, tokenizerTypes } from './tokenizers/tokenizer.js';
