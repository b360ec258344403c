export { checkpointName, trackerName } from '../checkpoints/checkpoint-directory.js';
export { jobOfCheckpoint } from '../checkpoints/save-owner.js';
export { prepareSaveDirectory } from '../saving/save-directory.js';
export { copyBox, type RunPlan, runsOfBox } from '../tensors/box-runs.js';
export { dtypeBytes } from '../tensors/dtype.js';
export { checkValues } from '../tensors/finite-values.js';
export { fillTensor } from '../tensors/logical-tensor.js';
