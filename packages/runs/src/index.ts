export { forgetStopSignal, stopSignal } from '@mtl/trainer/internal';
export { optimizerOfRun, type PartOfRun, partOfRun } from './parts/models/part-of-run.js';
export { TrainingProcesses, type TrainingProcessesOptions } from './parts/ranks/training-processes.js';
export { checkpointToLora } from './saved/adapters/checkpoint-to-lora.js';
export { mergeLora } from './saved/adapters/merge-lora.js';
export { checkpointToHuggingFace, checkpointToMegatron } from './saved/conversion/from-checkpoint.js';
export {
  type BegunCheckpoint,
  huggingFaceToCheckpoint,
  megatronToCheckpoint,
} from './saved/conversion/to-checkpoint.js';
export { type LoadedGpt, loadGptForInference } from './saved/inference/load-gpt-for-inference.js';
export type { OpenGptWeightsOptions } from './saved/inference/open-gpt-weights.js';
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
export type {
  DryRunOfProgram,
  FailedRun,
  OpenComparison,
  OperationsToProfile,
  RunPlanning,
  StepComparison,
} from './training/run-planning.js';
export {
  type RunTrainingProgramOptions,
  runTrainingProgram,
  showResults,
  type TrainingProgramBody,
} from './training/run-training-program.js';
export { type TrainOptions, train } from './training/train.js';
export { type TrainerOfRunOptions, trainerOfRun } from './training/trainer-of-run.js';
export { trainingProfiler } from './training/training-profiler.js';
