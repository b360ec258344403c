export { forgetStopSignal, stopSignal } from '@mtl/trainer/stop-signals';
export { buildStages, createOptimizer, type RankStages } from './parts/models/build-stages.js';
export { TrainingProcesses, type TrainingProcessesOptions } from './parts/ranks/training-processes.js';
export { checkpointToLora } from './saved/adapters/checkpoint-to-lora.js';
export { mergeLora } from './saved/adapters/merge-lora.js';
export { checkpointToHuggingFace, checkpointToMegatron } from './saved/conversion/from-checkpoint.js';
export { ggufToCheckpoint } from './saved/conversion/gguf-to-checkpoint.js';
export {
  type BegunCheckpoint,
  huggingFaceToCheckpoint,
  megatronToCheckpoint,
} from './saved/conversion/to-checkpoint.js';
export { checkpointToGguf, huggingFaceToGguf } from './saved/conversion/to-gguf.js';
export { checkpointToGgufLora, loraToGguf } from './saved/conversion/to-gguf-lora.js';
export { checkpointToOnnx, huggingFaceToOnnx } from './saved/conversion/to-onnx.js';
export type { WeightFormat, WrittenWeights } from './saved/formats/weight-format.js';
export { weightFormats } from './saved/formats/weight-formats.js';
export { type LoadedGpt, loadGptForInference } from './saved/inference/load-gpt-for-inference.js';
export type { OpenGptWeightsOptions } from './saved/inference/open-gpt-weights.js';
export { checkpointToPage, huggingFaceToPage } from './saved/page/to-page.js';
export { type OpenedData, openData } from './training/open-data.js';
export type { OpenedRun, OpenTrainingOptions } from './training/open-run.js';
export { describeModel, openLoop, openTraining, type Pretraining } from './training/open-training.js';
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
export { trainingProfiler } from './training/training-profiler.js';
