export { BadLines } from './corpora/bad-lines.js';
export type { OnBadLine } from './corpora/corpus-error.js';
export { type CorpusFiles, corpusFiles } from './corpora/corpus-files.js';
export { corpusFileNames } from './corpora/corpus-format.js';
export {
  type PrepareDatasetOptions,
  type PrepareProgress,
  type PrepareSummary,
  prepareDataset,
} from './corpora/prepare-dataset.js';
export { type ReadDocumentsOptions, readDocuments } from './corpora/read-documents.js';
export type { PlainTextDocuments } from './corpora/read-plain-text.js';
export { fileProblem } from './files/open-regular-file.js';
export { readRegularFile } from './files/read-regular-file.js';
export { writeFileAtomically } from './files/write-file-atomically.js';
export { IndexedDataset, type SequenceSlice } from './indexed/indexed-dataset.js';
export {
  type IndexedDatasetSummary,
  IndexedDatasetWriter,
  type IndexedDatasetWriterOptions,
} from './indexed/indexed-dataset-writer.js';
export { type IndexedDatasetInspection, inspectIndexedDataset } from './indexed/inspect-indexed-dataset.js';
export { type MergeIndexedDatasetsOptions, mergeIndexedDatasets } from './indexed/merge-indexed-datasets.js';
export type { TokenArray, TokenDtype } from './indexed/token-dtype.js';
export {
  type IndexedDatasetVerification,
  type VerifyIndexedDatasetOptions,
  verifyIndexedDataset,
} from './indexed/verify-indexed-dataset.js';
export {
  type BatchLoader,
  type BatchLoaderOptions,
  type BatchLoaderStatistics,
  createBatchLoader,
} from './loading/batch-loader.js';
export {
  type BertDataset,
  type BertDatasetDescription,
  type BertDatasetOptions,
  type BertDatasetSettings,
  type BertSample,
  openBertDataset,
} from './masked/bert-dataset.js';
export { type BertDatasetsOptions, buildBertDatasets } from './masked/build-bert-datasets.js';
export { type MaskedTokenBatch, mostRoomForMasked } from './masked/masked-token-batch.js';
export type { MaskingOptions } from './masked/masking-options.js';
export { type MaskingVocabulary, maskingVocabulary } from './masked/masking-vocabulary.js';
export type { DocumentCounts } from './masked/walk-sentences.js';
export type { BlendedDatasetDescription } from './samples/blended-dataset.js';
export { buildGptDatasets, type GptDatasets, type GptDatasetsOptions } from './samples/build-gpt-datasets.js';
export type { SplitDatasets, SplitDatasetsOptions } from './samples/build-split-datasets.js';
export { checkNoWeightAmongPrefixes, type DataBlend, parseDataPath } from './samples/data-path.js';
export { documentsOfSamples } from './samples/documents-of-samples.js';
export {
  type GptDataset,
  type GptDatasetDescription,
  type GptDatasetOptions,
  type GptDatasetSettings,
  openGptDataset,
} from './samples/gpt-dataset.js';
export type { IndexCacheEvent } from './samples/index-cache-event.js';
export { type MicroBatchSamplerOptions, sampleMicroBatches } from './samples/micro-batch-sampler.js';
export { mockDataBlend } from './samples/mock-sequences.js';
export { createSampleBatch, type SampleBatch } from './samples/sample-batch.js';
export type {
  NumberedBatch,
  SampleDataset,
  SampleDatasetDescription,
  SampleDocuments,
} from './samples/sample-dataset.js';
export { type SplitName, splitNames, splitSequences } from './samples/split.js';
export type { TokenizerJson } from './tokenizers/check-tokenizer-json.js';
export { createTokenizer } from './tokenizers/create-tokenizer.js';
export { exportTokenizer } from './tokenizers/export-tokenizer.js';
export type { Tokenizer } from './tokenizers/tokenizer.js';
export { type TokenizerOptions, type TokenizerType, tokenizerTypes } from './tokenizers/tokenizer-options.js';
export type { EncodedText } from './tokenizers/word-piece-offsets.js';
export type { TrainingProgress, TrainingTexts } from './training/count-words.js';
export { type TrainByteLevelBpeOptions, trainByteLevelBpe } from './training/train-byte-level-bpe.js';
export { type TrainWordPieceOptions, trainWordPiece } from './training/train-word-piece.js';
export { writeTokenizerJson } from './training/write-tokenizer-json.js';
export { writeVocabularyText } from './training/write-vocabulary-text.js';
