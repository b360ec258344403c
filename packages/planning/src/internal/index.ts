export { calibratedProfile } from '../calibration/calibrated-profile.js';
export { keepMatmulChoices } from '../calibration/keep-matmul-choices.js';
export { measureRates } from '../calibration/measure-rates.js';
export { chooseCollectiveBytes, referenceRuns } from '../calibration/reference-runs.js';
export { wholeMemory, withDeviceOfProfile } from '../plan/plan-run.js';
