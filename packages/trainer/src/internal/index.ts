export { type NameOfTotal, nameOfTotal } from '../loss-totals.js';
export { formatBytes } from '../metrics/format-bytes.js';
export { formatDuration } from '../metrics/format-duration.js';
export { modelFlopsText } from '../metrics/model-flops.js';
export { resultOf } from '../run-training.js';
export { deliveryText } from '../tracking/delivery-text.js';
export { missingWandbKey } from '../tracking/missing-wandb-key.js';
export { gradientTensors, isOptimizerTensor, parameterNameOf } from '../training-checkpoint.js';
