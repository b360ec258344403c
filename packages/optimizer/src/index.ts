export { Adamw, AdamwOptimizer, type AdamwOptimizerOptions, type AdamwOptions } from './adamw.js';
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
export {
  Muon,
  type MuonOptions,
  muonScales,
  muonWith,
  type NewtonSchulzCoefficients,
  newtonSchulzCoefficients,
} from './muon.js';
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
  ParameterGroup,
} from './optimizer.js';
export { stateBytesPerElement } from './optimizer.js';
export type { OptimizerStateTensor, StatePart } from './parameters-by-rule.js';
export {
  type CreateStoresOptions,
  createStores,
  type StoreName,
  stores,
} from './store/create-stores.js';
export type { Bucket, FlatRange, ParameterRange } from './store/flat-layout.js';
export { ownedPartsOf } from './store/flat-store.js';
export { copiesAlong, type ParallelGroups, reductionGroup } from './store/parallel-groups.js';
export type { ParameterStore, StoreKind, StoreOptions } from './store/parameter-store.js';
export { ReplicatedStore } from './store/replicated-store.js';
export { Zero1Store } from './store/zero1-store.js';
export { type MatrixOfParameter, WholeMatrices } from './whole-matrices.js';
