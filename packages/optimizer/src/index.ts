export { Adamw, type AdamwOptions } from './adamw.js';
export { AdamwOptimizer, type AdamwOptimizerOptions } from './adamw-optimizer.js';
export type { Bucket, FlatRange, ParameterRange } from './flat-layout.js';
export {
  type LearningRateDecayStyle,
  LearningRateSchedule,
  type LearningRateScheduleOptions,
  type WsdDecayStyle,
} from './learning-rate-schedule.js';
export { LossScaler, type LossScalerOptions, type LossScalerState } from './loss-scaler.js';
export {
  type LaunchStepOptions,
  ModelOptimizer,
  type ModelOptimizerOptions,
  type OptimizerStepOptions,
  type OptimizerStepResult,
} from './model-optimizer.js';
export { Muon, type MuonOptions, muonScales, muonWith } from './muon.js';
export { type NewtonSchulzCoefficients, newtonSchulzCoefficients } from './newton-schulz.js';
export {
  type BatchPosition,
  type BatchSizeRampup,
  NumMicroBatches,
  type NumMicroBatchesOptions,
  type StepBatch,
} from './num-micro-batches.js';
export type {
  BindOptions,
  BoundOptimizer,
  Optimizer,
  OptimizerRange,
  OptimizerSegment,
  OptimizerState,
  OptimizerStep,
} from './optimizer.js';
export { copiesAlong, type ParallelGroups } from './parallel-groups.js';
export {
  type DataParallelSharing,
  type OwnedRange,
  ParameterBuffers,
  type ParameterBuffersOptions,
} from './parameter-buffers.js';
export type { ParameterGroup } from './parameter-group.js';
export type { OptimizerStateTensor, StatePart } from './rule-of-parameters.js';
export { stateBytesPerElement } from './state-bytes-per-element.js';
export { type MatrixOfParameter, WholeMatrices } from './whole-matrices.js';
