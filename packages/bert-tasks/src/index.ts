export { bestSpans } from './data/best-spans.js';
export { writeCorpusTasks } from './data/corpus/write-corpus-tasks.js';
export { encodeMultipleChoice, encodeSentencePairs } from './data/encode-pairs.js';
export { encodeSpans } from './data/encode-spans.js';
export {
  type BrokenGlueRow,
  type GlueTaskName,
  glueTasks,
  readGlueFile,
  type SentencePairExample,
} from './data/read-glue-file.js';
export { readRaceDirectory } from './data/read-race-directory.js';
export { readSquadFile, type SpanExamples } from './data/read-squad-file.js';
export { accuracy, binaryF1, squadMetrics } from './data/task-metrics.js';
export {
  writeGluePredictions,
  writeRacePredictions,
  writeSquadPredictions,
} from './data/write-predictions.js';
export { checkedSeeds, configureFineTuning, fineTuningConfiguration } from './flags/configure-fine-tuning.js';
export type {
  FineTuningConfiguration,
  FineTuningTaskName,
  SpanConfiguration,
  StartConfiguration,
  TaskDataConfiguration,
} from './flags/fine-tuning-configuration.js';
export {
  type FineTuningOptions,
  fineTuningFlags,
  missingFineTuningFlags,
} from './flags/fine-tuning-flags.js';
export { type FineTuneOptions, type FineTuningReport, fineTune } from './runs/fine-tune.js';
export type { EpochResult, SeedResult, SetResult } from './runs/fine-tuning-results.js';
export type { TaskMetrics } from './runs/tasks.js';
