export { type FineTuneOptions, type FineTuningReport, fineTune } from './fine-tuning/fine-tune.js';
export type { EpochResult, SeedResult, SetResult } from './fine-tuning/fine-tuning-results.js';
export type { TaskMetrics } from './fine-tuning/task-set.js';
export {
  compareRuns,
  type Difference,
  type LossComparison,
  type RunComparison,
} from './records/compare-runs.js';
export { directoryOfRuns, listRuns, runDirectoryOf, runsDirectory } from './records/list-runs.js';
export type { MetricsRecord } from './records/metrics-records.js';
export { type RunInformation, readRun } from './records/read-run.js';
export { contentsOfRun, type RemovedRun, removeRun } from './records/remove-run.js';
export type { RunRecord, RunStart } from './records/run-record.js';
export { type SendRunOptions, sendRun } from './records/send-run.js';
export type { RunState } from './records/state-of-run.js';
export { type BegunReports, beginReports } from './training/begin-reports.js';
export { batchesOfRun, type DataOfRun, dataOfRun } from './training/data-of-run.js';
export { endWithoutOutput } from './training/end-without-output.js';
export { loadStart, type StartOfRun } from './training/load-start.js';
export { modelOfRun } from './training/model-of-run.js';
export { type OpenedRun, type OpenTrainingOptions, openRun } from './training/open-run.js';
export {
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
export { shellWord } from './training/shell-word.js';
export { type TrainOptions, train } from './training/train.js';
export { type TrainerOfRunOptions, trainerOfRun } from './training/trainer-of-run.js';
export { Training } from './training/training.js';
export { trainingProfiler } from './training/training-profiler.js';
