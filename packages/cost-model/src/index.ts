export { estimateSeconds, type LayoutEstimate, ListedEstimates } from './estimates.js';
export { communicatorBytes, type GroupUse } from './memory/communicator-bytes.js';
export { listedMemory } from './memory/listed-memory.js';
export {
  calibratedProfilePath,
  isProfileKnown,
  loadProfile,
  openProfile,
  profileNames,
} from './open-profile.js';
export type { ModelSize, Recomputation } from './operations/model-size.js';
export type {
  CollectiveOperation,
  ComputeDtype,
  FusedAttentionOperation,
  KernelOperation,
  MatmulOperation,
  Operation,
  RankGroup,
} from './operations/operation.js';
export type { MeasuredRates } from './profiles/hardware-profile.js';
export { listedProfile, type Profile, parseProfile } from './profiles/profile.js';
export type { EarlierLayout, GivenStepOptions, Layout, StepOptions } from './step/layout.js';
export {
  predictRecordedStep,
  type RecordedEnd,
  type RecordedMessage,
  type RecordedPasses,
  type RecordedStep,
} from './step/predict-recorded-step.js';
export { predictStepTime, type StepBreakdown, type StepPrediction } from './step/predict-step-time.js';
export { collectiveSeconds } from './timing/collective-seconds.js';
export { matmulBytes, peakFlops } from './timing/hardware-times.js';
export { operationsSeconds, passSeconds } from './timing/operations-seconds.js';
