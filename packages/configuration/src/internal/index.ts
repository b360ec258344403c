export { type AdaptedConfiguration, adapterExports } from '../adapters/adapted-configuration.js';
export { adapterExportFlags, adapterStartFlags } from '../adapters/adapter-flags.js';
export { modelKinds } from '../architecture/architecture-field.js';
export { listFields, pickFields } from '../architecture/fields-of.js';
export { requireBert } from '../architecture/models-of-configuration.js';
export { foldNotices } from '../command-line/fold-notices.js';
export { withLoadedFlags } from '../command-line/parse-flags.js';
export { type FlagOfProgram, flagsOfProgram } from '../command-line/program-help.js';
export { bundledCorpus } from '../flags/data-flags.js';
export type { FlagFragment } from '../flags/flag-values.js';
export { loggingFlags } from '../flags/logging-flags.js';
export { camelCase } from '../flags/option-names.js';
export {
  configurationOption,
  flagValuesOption,
  modelKindOption,
  numProcessesOption,
  ofRun,
  parsedFlagsOption,
  runOptionChecks,
} from '../options/option-checks.js';
export { inWordsOfOptions } from '../options/run-options.js';
export { findPresets } from '../presets/presets.js';
export { processesText } from '../print-configuration.js';
export {
  architectureFlags,
  checkHuggingFaceArchitecture,
  checkSameArchitecture,
  differingFlags,
  flagsOfHuggingFace,
  type KindOfModel,
  withAskedPositions,
} from '../saved/flags-of-model.js';
export { flagsOfStart } from '../saved/flags-of-start.js';
export {
  decidesLearning,
  learningDifferences,
} from '../saved/learning-differences.js';
export {
  type CheckpointPlace,
  listSavedSizes,
  readAnySavedConfiguration,
  savedModelKeys,
  type TrainedOn,
} from '../saved/saved-configuration.js';
export {
  keepTokenizer,
  listTokenizerFlags,
  modelFileNames,
  saveTokenizer,
  tokenizerFiles,
} from '../saved/saved-tokenizer.js';
export { defaultOfSchema, describeSchema } from '../schema/describe-flag.js';
export {
  checkpointFlags,
  isFlagName,
  parallelFlagNames,
  tokenizerFlagNames,
} from '../schema/flag-schema.js';
export { readFlagValue } from '../schema/flag-value.js';
export { conversionFlags, inferenceFlags, sharingFlags, tokenizerFlags } from '../schema/inference-flags.js';
export { scheduleOfStep } from '../strategies/pipeline-schedule.js';
export {
  type AxisSizes,
  checkGeneration,
  checkSharedModel,
  copyOfModel,
  dependsOnRouting,
  distinctRanks,
  type FlagChange,
  flagsThatDivideModel,
  groupsOfRun,
  layoutOfRecord,
  layoutText,
  leastProcesses,
  meshOfRun,
  modelSharing,
  numSharesOfBatch,
  type OptimizedLayout,
  optimizerSharing,
  type RecordedSizes,
  rankLike,
  recordedSizes,
  type SearchedAxis,
  type SearchedSettings,
  savingsOfLayout,
  searchedAxes,
  searchedSettings,
  sharedLayout,
  switchesThatSave,
  undivided,
  withoutExperts,
} from '../strategies/strategies.js';
export {
  costsOfSaving,
  type ModelSharingOptions,
  powersOfTwo,
  type SearchedRun,
} from '../strategies/strategy.js';
export { checkRequiredFlags, missingFlags, tokenizerAdvice } from '../validation/check-required-flags.js';
export {
  chooseTokenizer,
  conversationConfiguration,
  readTokenizerFlags,
} from '../validation/data-configuration.js';
export { FlagReader, inWordsOfFlags } from '../validation/flag-reader.js';
export {
  serviceUrl,
  type TrackingConfiguration,
  trackingConfiguration,
} from '../validation/logging-configuration.js';
export { parallelConfiguration } from '../validation/parallel-configuration.js';
export { recomputeConfiguration } from '../validation/training-configuration.js';
