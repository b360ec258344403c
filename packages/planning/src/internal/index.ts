export { type CalibratedProfileOptions, calibratedProfile } from '../calibration/calibrated-profile.js';
export { keepMatmulChoices } from '../calibration/keep-matmul-choices.js';
export { type MeasureRatesOptions, measureRates } from '../calibration/measure-rates.js';
export { chooseCollectiveBytes, type ReferenceRun, referenceRuns } from '../calibration/reference-runs.js';
export { dryRunModel, enoughMicroBatches } from '../dry-run/dry-run.js';
export {
  type DryRunRankOptions,
  dryRunRank,
  type MetaRun,
  metaRun,
} from '../dry-run/dry-run-rank.js';
export { formatDryRun } from '../dry-run/print-dry-run.js';
export { wholeMemory, withDeviceOfProfile } from '../plan/plan-run.js';
