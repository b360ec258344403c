export { formatBytes, formatDuration } from '../metrics/format-quantities.js';
export { modelFlopsText } from '../metrics/model-flops.js';
export { validationMetrics } from '../metrics/training-reports.js';
export { finishSteps, trainingSteps } from '../run-training.js';
export { nameOfTotal } from '../steps/loss-kinds.js';
export { Ranks } from '../steps/ranks.js';
export {
  forgetStopSignal,
  refuseAfterStopSignal,
  rememberStopSignal,
  StopSignals,
  stopSignal,
  stopSignalNames,
} from '../stop-signals.js';
export { gradientTensors, isOptimizerTensor, readParameterName } from '../training-state.js';
