export {
  type EstimateSecondsOptions,
  estimateSeconds,
  type LayoutEstimate,
  ListedEstimates,
} from './estimates.js';
export {
  type CommunicatorBytesOptions,
  communicatorBytes,
  type GroupUse,
} from './memory/communicator-bytes.js';
export { type ListedMemory, listedMemory } from './memory/listed-memory.js';
export {
  calibratedProfilePath,
  isProfileKnown,
  loadProfile,
  type OpenProfileOptions,
  openProfile,
  profileNames,
} from './open-profile.js';
export {
  attentionBackward,
  attentionForward,
  layerBackward,
  layerForward,
} from './operations/layer-operations.js';
export type { Block, LayerShape, ModelSize, Recomputation } from './operations/model-size.js';
export type {
  CollectiveOperation,
  ComputeDtype,
  FusedAttentionOperation,
  HiddenCollective,
  KernelOperation,
  MatmulOperation,
  Operation,
  RankGroup,
  StartOperation,
  WaitOperation,
} from './operations/operation.js';
export {
  type GpuProfile,
  gpuProfile,
  type HardwareProfile,
  hardwareProfile,
  type MeasuredProfile,
  type MeasuredRates,
  measuredProfile,
} from './profiles/hardware-profile.js';
export {
  type ListedProfile,
  type ListedSoftware,
  listedProfile,
  type Profile,
  parseProfile,
  type SoftwareProfile,
  softwareProfile,
} from './profiles/profile.js';
export { type ChunkOperations, chunkOperations, type RepeatedOperations } from './step/chunk-passes.js';
export { type Layout, type StepOptions, scheduleOfLayout } from './step/layout.js';
export {
  type DataCollectives,
  exposedSeconds,
  type PredictRecordedOptions,
  predictRecordedStep,
  profileOfRun,
  type RecordedEnd,
  type RecordedMessage,
  type RecordedPasses,
  type RecordedStep,
  recordedMessageSeconds,
} from './step/predict-recorded-step.js';
export {
  type PredictOptions,
  predictStepTime,
  type StepBreakdown,
  type StepPrediction,
} from './step/predict-step-time.js';
export { collectiveSeconds } from './timing/collective-seconds.js';
export { matmulBytes, peakFlops } from './timing/hardware-times.js';
export { operationsSeconds, type PassSeconds, passSeconds } from './timing/operations-seconds.js';
