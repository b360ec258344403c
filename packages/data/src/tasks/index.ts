export {
  type BestSpans,
  type BestSpansOptions,
  bestSpans,
  type SpanCandidate,
  type SpanLogits,
} from './best-spans.js';
export { accuracy, binaryF1, type ClassificationResults } from './classification-metrics.js';
export { type WriteCorpusTasksOptions, writeCorpusTasks } from './corpus/write-corpus-tasks.js';
export { type EncodeMultipleChoiceOptions, encodeMultipleChoice } from './encode-multiple-choice.js';
export { type EncodeSentencePairsOptions, encodeSentencePairs } from './encode-sentence-pairs.js';
export { type EncodedSpans, type EncodeSpansOptions, encodeSpans, type SpanWindow } from './encode-spans.js';
export {
  type BrokenGlueRow,
  type GlueTaskName,
  glueTasks,
  type ReadGlueFileOptions,
  readGlueFile,
  type SentencePairExample,
} from './read-glue-file.js';
export { type MultipleChoiceExample, readRaceDirectory } from './read-race-directory.js';
export { readSquadFile, type SpanAnswer, type SpanExample, type SpanExamples } from './read-squad-file.js';
export { type SquadMetrics, type SquadResults, type SquadScores, squadMetrics } from './squad-metrics.js';
export { TaskDataset, type TaskDatasetDescription } from './task-dataset.js';
export type { TaskTokenBatch } from './task-token-batch.js';
export { writeGluePredictions, writeRacePredictions, writeSquadPredictions } from './write-predictions.js';
