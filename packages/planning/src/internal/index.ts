export { type CalibratedProfileOptions, calibratedProfile } from '../calibration/calibrated-profile.js';
export { type MeasureRatesOptions, measureRates } from '../calibration/measure-rates.js';
export { medianWithSpread } from '../calibration/measured-points.js';
export { collectiveBytesOf, type ReferenceRun, referenceRuns } from '../calibration/reference-runs.js';
export { dryRunModel, enoughMicroBatches } from '../dry-run/dry-run.js';
export {
  type DryRunListener,
  type DryRunRankOptions,
  dryRunRank,
  type MetaRun,
  metaRun,
} from '../dry-run/dry-run-rank.js';
export { formatDryRun, printDryRun } from '../dry-run/print-dry-run.js';
export { explainOutOfMemory } from '../memory/explain-out-of-memory.js';
export { wholeMemory, withDeviceOfProfile } from '../plan/plan-run.js';
export { formatStepProfile } from '../profile/format-step-profile.js';
export { OperationProfile, type StepProfile } from '../profile/operation-profile.js';
export { measureRoofline } from '../profile/roofline.js';
