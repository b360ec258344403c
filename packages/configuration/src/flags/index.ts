export { checksOfFlags, partsNamed } from '../options/option-checks.js';
export type { OptionsOf } from '../options/run-options.js';
export {
  bertFlags,
  findFlagFacts,
  findSchema,
  type ParallelFlags,
  parallelFlagNames,
  parallelFlagsOfTasks,
  type RecomputeFlags,
  recomputeFlagNames,
  type TrackingFlags,
  trackingFlagNames,
} from '../schema/flag-schema.js';
export { readFlagValue } from '../schema/flag-value.js';
export { readTokenizerFlags } from '../validation/data-configuration.js';
export { checkpointFlags } from './checkpoint-flags.js';
export { dataFlags } from './data-flags.js';
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
export { loggingFlags, trackingFlags } from './logging-flags.js';
export { optimizerFlags } from './optimizer-flags.js';
export { camelCase } from './option-names.js';
export { recomputeFlags, trainingFlags } from './training-flags.js';
