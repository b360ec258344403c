export type { ArchitectureField } from './architecture/architecture-field.js';
export { architectureFields } from './architecture/architecture-fields.js';
export {
  architectureFlags,
  differingFlags,
  type KindOfModel,
  weightFlagNames,
} from './architecture/architecture-flags.js';
export { bertModelOf, bertOf } from './architecture/bert-model-of.js';
export { checkHuggingFaceArchitecture } from './architecture/check-hugging-face-architecture.js';
export { checkSameArchitecture } from './architecture/check-same-architecture.js';
export { flagsOfHuggingFace } from './architecture/flags-of-hugging-face.js';
export { gptModelOf } from './architecture/gpt-model-of.js';
export { pickFields } from './architecture/pick-fields.js';
export { withAskedPositions } from './architecture/rotary-alternatives.js';
export {
  checkedSeeds,
  configureFineTuning,
  fineTuningConfiguration,
} from './fine-tuning/configure-fine-tuning.js';
export {
  type FineTuningConfiguration,
  type FineTuningTaskName,
  fineTuningTaskNames,
  type SpanConfiguration,
  type StartConfiguration,
  type TaskDataConfiguration,
} from './fine-tuning/fine-tuning-configuration.js';
export { type FineTuningOptions, fineTuningFlags } from './fine-tuning/fine-tuning-flags.js';
export {
  type FineTuningPreset,
  type FineTuningPresetName,
  type FineTuningPresetTask,
  fineTuningPreset,
  fineTuningPresetNames,
} from './fine-tuning/fine-tuning-presets.js';
export { missingFineTuningFlags } from './fine-tuning/missing-fine-tuning-flags.js';
export { checkpointFlags } from './flags/checkpoint-flags.js';
export {
  defaultOfSchema,
  describeFlag,
  describeSchema,
  type FlagDescription,
} from './flags/describe-flag.js';
export {
  configFileJsonSchema,
  type FlagName,
  type Flags,
  isFlagName,
  type ParallelFlags,
  parallelFlagNames,
  type RecomputeFlags,
  recomputeFlagNames,
  type TrackingFlags,
  trackingFlagNames,
} from './flags/flag-schema.js';
export { type GivenValue, readFlagValue } from './flags/flag-value.js';
export { tokenizerFlagNames } from './flags/flags-of-own-models.js';
export { type FlagOfProgram, flagsOfProgram } from './flags/flags-of-program.js';
export { foldNotices } from './flags/fold-notices.js';
export { formatHelp } from './flags/format-help.js';
export {
  conversionFlags,
  inferenceFlags,
  sharingFlags,
  tokenizerFlags,
} from './flags/inference-flags.js';
export type { LoadedFlags } from './flags/loaded-flags.js';
export { loggingFlags } from './flags/logging-flags.js';
export {
  type ParsedFlags,
  type ParseFlagsOptions,
  parseFlags,
  withLoadedFlags,
} from './flags/parse-flags.js';
export { type ResolvedFlags, resolveFlags } from './flags/resolve-flags.js';
export { type ModelKind, modelKinds } from './model-kind.js';
export { configure } from './options/configure.js';
export { flagsOfOptions } from './options/flags-of-options.js';
export { inWordsOfOptions } from './options/in-words-of-options.js';
export { optionsOfFlags } from './options/options-of-flags.js';
export type { ModelOptions, OptionsOf, OptionTopic, RunOptions } from './options/run-options.js';
export { presetNames } from './presets/gpt-presets.js';
export { presetsOf } from './presets/presets-of.js';
export type {
  BertConfiguration,
  CheckpointConfiguration,
  ConversationConfiguration,
  ConversationSamples,
  OptimizerConfiguration,
  ParallelConfiguration,
  PretrainingConfiguration,
  TokenizerConfiguration,
  TrainingConfiguration,
} from './pretraining-configuration.js';
export { printConfiguration, processesText } from './print-configuration.js';
export { type ConfigurationJson, configurationJson } from './saved/configuration-json.js';
export { type LearningDifference, learningDifferences } from './saved/learning-differences.js';
export {
  type CheckpointPlace,
  readAnySavedConfiguration,
  readSavedConfiguration,
  type SaveConfigurationOptions,
  type SavedConfiguration,
  saveConfiguration,
  type TrainedOn,
} from './saved/saved-configuration.js';
export { type ModelOfKind, savedModelKeys, savedSizesOf } from './saved/saved-model.js';
export { keepTokenizer, saveTokenizer } from './saved/saved-tokenizer.js';
export { type TokenizerFile, tokenizerFiles } from './saved/tokenizer-files.js';
export { tokenizerFlagsOf } from './saved/tokenizer-flags-of.js';
export { loadScheduleModule } from './schedules/load-schedule-module.js';
export { type ScheduleConfiguration, scheduleOfStep } from './schedules/schedule-of-step.js';
export {
  type AxisSizes,
  axesOfRun,
  groupsOfRun,
  layoutText,
  meshOfRun,
  type PlannedGroup,
  type StrategyConfiguration,
  strategies,
} from './strategies/strategies.js';
export type { AxisSize, FlagFragment, Strategy, StrategyCall } from './strategies/strategy.js';
export { type ValidateConfigurationOptions, validateConfiguration } from './validate-configuration.js';
export { bundledCorpus } from './validation/bundled-corpus.js';
export { checkRequiredFlags, missingFlags } from './validation/check-required-flags.js';
export { conversationConfiguration } from './validation/conversation-configuration.js';
export { tokenizerOf } from './validation/data-configuration.js';
export { FlagReader } from './validation/flag-reader.js';
export { inWordsOfFlags } from './validation/in-words-of-flags.js';
export { parallelConfiguration } from './validation/parallel-configuration.js';
export { readTokenizerFlags, type TokenizerFlags } from './validation/read-tokenizer-flags.js';
export { recomputeConfiguration } from './validation/recompute-configuration.js';
export { serviceUrl } from './validation/service-url.js';
export { tokenizerAdvice } from './validation/tokenizer-advice.js';
export { type TrackingConfiguration, trackingConfiguration } from './validation/tracking-configuration.js';
