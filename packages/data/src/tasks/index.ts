export { bestSpans } from './best-spans.js';
export { accuracy, binaryF1 } from './classification-metrics.js';
export { writeCorpusTasks } from './corpus/write-corpus-tasks.js';
export { encodeMultipleChoice } from './encode-multiple-choice.js';
export { encodeSentencePairs } from './encode-sentence-pairs.js';
export { encodeSpans } from './encode-spans.js';
export {
  type BrokenGlueRow,
  type GlueTaskName,
  glueTasks,
  readGlueFile,
  type SentencePairExample,
} from './read-glue-file.js';
export { readRaceDirectory } from './read-race-directory.js';
export { readSquadFile, type SpanExamples } from './read-squad-file.js';
export { squadMetrics } from './squad-metrics.js';
export { TaskDataset } from './task-dataset.js';
export type { TaskTokenBatch } from './task-token-batch.js';
export { writeGluePredictions, writeRacePredictions, writeSquadPredictions } from './write-predictions.js';
