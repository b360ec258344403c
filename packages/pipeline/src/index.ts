export { type RunMicroBatchesOptions, runMicroBatches } from './run-micro-batches.js';
export type { Stage, StageForward, StageLoss, StageLossPart } from './stage.js';
