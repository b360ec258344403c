export {
  type CheckpointToHuggingFaceOptions,
  checkpointToHuggingFace,
} from './build/checkpoint-to-hugging-face.js';
export {
  type DefaultCorpusOptions,
  type PreparedCorpus,
  prepareDefaultCorpus,
} from './build/default-corpus.js';
export { defaultCorpusFiles } from './build/default-corpus-files.js';
export { endWithoutOutput } from './build/end-without-output.js';
export { gptModelConfiguration } from './build/gpt-model-configuration.js';
export {
  type BegunCheckpoint,
  huggingFaceToCheckpoint,
} from './build/hugging-face-to-checkpoint.js';
export { type JoinedProcesses, type JoinProcessesOptions, joinProcesses } from './build/join-processes.js';
export {
  type LoadedGpt,
  type LoadGptForInferenceOptions,
  loadGptForInference,
} from './build/load-gpt-for-inference.js';
export { loadScheduleModule } from './build/load-schedule-module.js';
export { type GptWeights, type OpenGptWeightsOptions, openGptWeights } from './build/open-gpt-weights.js';
export {
  type OpenTrainingDataOptions,
  openTrainingData,
  type TrainingData,
} from './build/open-training-data.js';
export type { Job } from './build/read-job.js';
export { readLoadedFlags } from './build/read-loaded-flags.js';
export {
  type RunTrainingProgramOptions,
  runTrainingProgram,
} from './build/run-training-program.js';
export { type SampleTextOptions, sampleText } from './build/sample-text.js';
export {
  type CheckpointPlace,
  readSavedBertConfiguration,
  readSavedConfiguration,
  type SaveConfigurationOptions,
  type SavedBertConfiguration,
  type SavedConfiguration,
  saveConfiguration,
  type TrainedOn,
} from './build/saved-configuration.js';
export { type TokenizerFile, tokenizerFiles } from './build/tokenizer-files.js';
export { type BuildTrainingOptions, Training } from './build/training.js';
export {
  broadcastJson,
  TrainingProcesses,
  type TrainingProcessesOptions,
} from './build/training-processes.js';
export { readTokenizerFlags, type TokenizerFlags } from './configuration/read-tokenizer-flags.js';
export { type ConfigurationJson, configurationJson } from './configuration-json.js';
export { type FineTuneOptions, type FineTuningReport, fineTune } from './finetune/fine-tune.js';
export {
  type FineTuningConfiguration,
  type FineTuningTaskName,
  fineTuningTaskNames,
} from './finetune/fine-tuning-configuration.js';
export {
  type FineTuningPreset,
  type FineTuningPresetName,
  type FineTuningPresetTask,
  fineTuningPreset,
  fineTuningPresetNames,
} from './finetune/fine-tuning-presets.js';
export type { EpochResult, SeedResult, SetResult } from './finetune/fine-tuning-results.js';
export type { TaskMetrics } from './finetune/task-set.js';
export { describeFlag, type FlagDescription } from './flags/describe-flag.js';
export {
  configFileJsonSchema,
  type Flags,
  type ParallelFlags,
  parallelFlagNames,
  type RecomputeFlags,
  recomputeFlagNames,
} from './flags/flag-schema.js';
export { type GivenValue, readFlagValue } from './flags/flag-value.js';
export { formatHelp } from './flags/format-help.js';
export type { LoadedFlags } from './flags/loaded-flags.js';
export {
  type ParsedFlags,
  type ParseFlagsOptions,
  parseFlags,
  withLoadedFlags,
} from './flags/parse-flags.js';
export { type MemorySaving, memorySavings } from './memory/memory-savings.js';
export type { MemoryShape, PipelineShape } from './memory/memory-shape.js';
export { memoryShapeOf } from './memory/memory-shape-of.js';
export { type MemoryPrediction, predictMemory, predictStages } from './memory/predict-memory.js';
export type { ModelKind } from './model-kind.js';
export { presetNames } from './presets/presets.js';
export type { PretrainingConfiguration, TokenizerConfiguration } from './pretraining-configuration.js';
export { printConfiguration } from './print-configuration.js';
export {
  compareRuns,
  type Difference,
  type LossComparison,
  type RunComparison,
} from './runs/compare-runs.js';
export { listRuns, runDirectoryOf, runsDirectory } from './runs/list-runs.js';
export type { MetricsRecord } from './runs/metrics-records.js';
export { type RunInformation, type RunState, readRun } from './runs/read-run.js';
export { contentsOfRun, type RemovedRun, removeRun } from './runs/remove-run.js';
export type { RunRecord, RunStart } from './runs/run-record.js';
export { type PredictTimeOptions, predictTime, type TimePrediction } from './time/predict-time.js';
export { type ValidateConfigurationOptions, validateConfiguration } from './validate-configuration.js';
