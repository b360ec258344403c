export { type NameOfTotal, nameOfTotal } from '../loss-totals.js';
export { formatBytes } from '../metrics/format-bytes.js';
export { formatDuration } from '../metrics/format-duration.js';
export { modelFlopsText } from '../metrics/model-flops.js';
export { validationMetrics } from '../metrics/validation-metrics.js';
export { resultOf } from '../run-training.js';
export { gradientTensors, isOptimizerTensor, parameterNameOf } from '../training-checkpoint.js';
