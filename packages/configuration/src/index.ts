export type { ModelKind } from './architecture/architecture-field.js';
export { describeBertModel, describeGptModel } from './architecture/models-of-configuration.js';
export { type ParsedFlags, type ParseFlagsOptions, parseFlags } from './command-line/parse-flags.js';
export { formatHelp } from './command-line/program-help.js';
export { type LoadedFlags, type ResolvedFlags, resolveFlags } from './command-line/resolve-flags.js';
export { configure, flagsOfOptions } from './options/configure.js';
export {
  type ModelOptions,
  type OptionsOf,
  type OptionTopic,
  optionsOfFlags,
  type RunOptions,
} from './options/run-options.js';
export type { PresetName } from './presets/presets.js';
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
export { printConfiguration } from './print-configuration.js';
export {
  type ConfigurationJson,
  configurationJson,
  type RecordedMatmuls,
  readSavedConfiguration,
  type SaveConfigurationOptions,
  type SavedConfiguration,
  saveConfiguration,
} from './saved/saved-configuration.js';
export { configFileJsonSchema, type FlagName, type Flags } from './schema/flag-schema.js';
export { loadScheduleModule, type ScheduleConfiguration } from './strategies/pipeline-schedule.js';
export type { StrategyConfiguration } from './strategies/strategies.js';
export {
  type ValidateConfigurationOptions,
  validateConfiguration,
} from './validation/validate-configuration.js';
