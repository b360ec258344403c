export { forgetStopSignal, stopSignal } from '@mtl/trainer/internal';
export { type FineTuneOptions, type FineTuningReport, fineTune } from './fine-tuning/fine-tune.js';
export type { EpochResult, SeedResult, SetResult } from './fine-tuning/fine-tuning-results.js';
export type { TaskMetrics } from './fine-tuning/tasks.js';
export type { ExpertLoadComparison } from './records/compare-expert-loads.js';
export {
  compareRuns,
  type Difference,
  type LossComparison,
  type RunComparison,
} from './records/compare-runs.js';
export type { MetricsRecord } from './records/metrics-records.js';
export { listRuns, type RunInformation, readRun } from './records/read-run.js';
export { type RemovedRun, removeRun } from './records/remove-run.js';
export type { RunRecord, RunStart, RunState } from './records/run-record.js';
export { type SendRunOptions, sendRun } from './records/send-run.js';
export { type BegunReports, beginReports } from './training/begin-reports.js';
export { batchesOfRun, type DataOfRun, dataOfRun } from './training/data-of-run.js';
export { loadStart, type StartOfRun } from './training/load-start.js';
export type { OpenedRun, OpenTrainingOptions } from './training/open-run.js';
export {
  modelOfRun,
  openTraining,
  type Pretraining,
  type PretrainingParts,
  pretraining,
} from './training/open-training.js';
export {
  type RunTrainingProgramOptions,
  runTrainingProgram,
  showResults,
  type TrainingProgramBody,
} from './training/run-training-program.js';
export { type TrainOptions, train } from './training/train.js';
export { type TrainerOfRunOptions, trainerOfRun } from './training/trainer-of-run.js';
export { trainingProfiler } from './training/training-profiler.js';
