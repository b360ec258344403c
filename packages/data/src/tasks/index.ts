// the type of its batches has moved to @mtl/layout, and is here for one version
export type {
  /** @deprecated Import it from @mtl/layout. */
  TaskTokenBatch,
} from '@mtl/layout';
export { bestSpans } from './best-spans.js';
export { writeCorpusTasks } from './corpus/write-corpus-tasks.js';
export { encodeMultipleChoice, encodeSentencePairs } from './encode-pairs.js';
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
export { TaskDataset } from './task-dataset.js';
export { accuracy, binaryF1, squadMetrics } from './task-metrics.js';
export { writeGluePredictions, writeRacePredictions, writeSquadPredictions } from './write-predictions.js';
