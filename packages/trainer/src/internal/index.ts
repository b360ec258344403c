export { modelFlopsText } from '../metrics/model-flops.js';
export { validationMetrics } from '../metrics/training-reports.js';
export { finishSteps, trainingSteps } from '../run-training.js';
export { nameOfTotal } from '../steps/loss-kinds.js';
export { Ranks } from '../steps/ranks.js';
export { gradientTensors } from '../training-state.js';
