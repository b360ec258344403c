export { foldNotices } from '../command-line/fold-notices.js';
export { type FlagOfProgram, flagsOfProgram } from '../command-line/program-help.js';
export { checksOfFlags, partsNamed } from '../options/option-checks.js';
export type { OptionsOf } from '../options/run-options.js';
export { defaultOfSchema, describeSchema } from '../schema/describe-flag.js';
export {
  bertFlags,
  findFlagFacts,
  findSchema,
  isFlagName,
  type ParallelFlags,
  parallelFlagNames,
  parallelFlagsOfTasks,
  type RecomputeFlags,
  recomputeFlagNames,
  type TrackingFlags,
  tokenizerFlagNames,
  trackingFlagNames,
} from '../schema/flag-schema.js';
export { readFlagValue } from '../schema/flag-value.js';
export { conversionFlags, inferenceFlags, sharingFlags, tokenizerFlags } from '../schema/inference-flags.js';
export { checkRequiredFlags, missingFlags } from '../validation/check-required-flags.js';
export { readTokenizerFlags } from '../validation/data-configuration.js';
export { FlagReader, inWordsOfFlags } from '../validation/flag-reader.js';
export { checkpointFlags } from './checkpoint-flags.js';
export { bundledCorpus, dataFlags } from './data-flags.js';
export {
  choice,
  count,
  flagFacts,
  fraction,
  type HasDefault,
  redescribed,
  text,
  texts,
  toggle,
} from './flag-kinds.js';
export type { FlagFragment } from './flag-values.js';
export { loggingFlags, trackingFlags } from './logging-flags.js';
export { optimizerFlags } from './optimizer-flags.js';
export { camelCase } from './option-names.js';
export { recomputeFlags, trainingFlags } from './training-flags.js';
