export { Adamw, AdamwOptimizer } from './adamw.js';
export type { KeptValues, StateDtype } from './kept-values.js';
export {
  type LearningRateDecayStyle,
  LearningRateSchedule,
  type LearningRateScheduleOptions,
} from './learning-rate-schedule.js';
export { LossScaler, type LossScalerOptions } from './loss-scaler.js';
export { ModelOptimizer, type ModelOptimizerOptions } from './model-optimizer.js';
export { Muon, type MuonOptions, muonWith } from './muon.js';
export { type BatchPosition, type BatchSizeRampup, NumMicroBatches } from './num-micro-batches.js';
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
export {
  type CreateStoresOptions,
  createStores,
  type ShardingStrategy,
  type StoreName,
  shardingStrategies,
  storeOfStrategy,
  stores,
} from './store/create-stores.js';
export type { FlatRange, ParameterRange } from './store/flat-layout.js';
export { listOwnedParts } from './store/flat-store.js';
export { FullyShardedStore } from './store/fully-sharded-store.js';
export {
  copiesAlong,
  type GroupsByRole,
  instanceRoles,
  instancesGroup,
  type ParallelGroups,
} from './store/parallel-groups.js';
export type {
  FrozenRange,
  ListedStore,
  ParameterStore,
  StoreKind,
  StoreOptions,
  TrainingState,
} from './store/parameter-store.js';
export { ReplicatedStore } from './store/replicated-store.js';
export type { SharedGradients } from './store/stored-gradients.js';
export { Zero1Store } from './store/zero1-store.js';
export { Zero2Store } from './store/zero2-store.js';
export { type MatrixOfParameter, WholeMatrices } from './whole-matrices.js';
