export { type AdaptedConfiguration, adapterExports } from '../adapters/adapted-configuration.js';
export { adapterExportFlags, adapterStartFlags } from '../adapters/adapter-flags.js';
export { modelKinds } from '../architecture/architecture-field.js';
export { listFields, pickFields } from '../architecture/list-fields.js';
export { requireBert } from '../architecture/models-of-configuration.js';
export { withLoadedFlags } from '../command-line/parse-flags.js';
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
export { tokenizerAdvice } from '../validation/check-required-flags.js';
export { chooseTokenizer, conversationConfiguration } from '../validation/data-configuration.js';
export {
  serviceUrl,
  type TrackingConfiguration,
  trackingConfiguration,
} from '../validation/logging-configuration.js';
export { parallelConfiguration } from '../validation/parallel-configuration.js';
export { recomputeConfiguration } from '../validation/training-configuration.js';
