export { medianWithSpread } from '../calibration/measured-points.js';
export { distinctRanks, dryRunModel, enoughMicroBatches } from '../dry-run/dry-run.js';
export type { DryRunListener } from '../dry-run/dry-run-rank.js';
export { formatDryRun, printDryRun } from '../dry-run/print-dry-run.js';
export { explainOutOfMemory } from '../memory/explain-out-of-memory.js';
export { formatStepProfile } from '../profile/format-step-profile.js';
export { OperationProfile, type StepProfile } from '../profile/operation-profile.js';
export { measureRoofline } from '../profile/roofline.js';
