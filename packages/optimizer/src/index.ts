export {
  AdamwOptimizer,
  type AdamwOptimizerOptions,
  type LaunchStepOptions,
  type OptimizerStateTensor,
  type OptimizerStepOptions,
  type OptimizerStepResult,
} from './adamw-optimizer.js';
export type { Bucket, FlatRange, ParameterRange } from './flat-layout.js';
export {
  type LearningRateDecayStyle,
  LearningRateSchedule,
  type LearningRateScheduleOptions,
  type WsdDecayStyle,
} from './learning-rate-schedule.js';
export { LossScaler, type LossScalerOptions, type LossScalerState } from './loss-scaler.js';
export {
  type BatchSizeRampup,
  NumMicroBatches,
  type NumMicroBatchesOptions,
  type StepBatch,
} from './num-micro-batches.js';
export { copiesAlong, type ParallelGroups } from './parallel-groups.js';
export {
  type DataParallelSharing,
  type OwnedRange,
  ParameterBuffers,
  type ParameterBuffersOptions,
} from './parameter-buffers.js';
