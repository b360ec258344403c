export { loadProfile, profileNames } from './load-profile.js';
export {
  type CommunicatorBytesOptions,
  communicatorBytes,
  type GroupUse,
} from './memory/communicator-bytes.js';
export { type ListedMemory, listedMemory } from './memory/listed-memory.js';
export {
  calibratedProfilePath,
  isProfileKnown,
  type OpenProfileOptions,
  openProfile,
} from './open-profile.js';
export { attentionBackward, attentionForward } from './operations/attention-operations.js';
export type { Block } from './operations/block-sizes.js';
export { layerBackward, layerForward } from './operations/layer-operations.js';
export type { LayerShape, Recomputation } from './operations/layer-shape.js';
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
export type { ModelSize } from './operations/parameter-counts.js';
export {
  type GpuProfile,
  gpuProfile,
  type HardwareProfile,
  hardwareProfile,
} from './profiles/hardware-profile.js';
export { type MeasuredProfile, type MeasuredRates, measuredProfile } from './profiles/measured-profile.js';
export { parseProfile } from './profiles/parse-profile.js';
export { type ListedProfile, listedProfile, type Profile } from './profiles/profile.js';
export {
  type ListedSoftware,
  type SoftwareProfile,
  softwareProfile,
} from './profiles/software-profile.js';
export { type EstimateSecondsOptions, estimateSeconds } from './search/estimate-seconds.js';
export { type LayoutEstimate, ListedEstimates } from './search/listed-estimates.js';
export { type ChunkOperations, chunkOperations, type RepeatedOperations } from './step/chunk-operations.js';
export { type DataCollectives, exposedSeconds } from './step/exposed-seconds.js';
export {
  type PredictRecordedOptions,
  predictRecordedStep,
  profileOfRun,
  type RecordedEnd,
  type RecordedPasses,
  type RecordedStep,
} from './step/predict-recorded-step.js';
export {
  type PredictOptions,
  predictStepTime,
  type StepBreakdown,
  type StepPrediction,
} from './step/predict-step-time.js';
export { type RecordedMessage, recordedMessageSeconds } from './step/recorded-message-seconds.js';
export { scheduleOfLayout } from './step/schedule-of-layout.js';
export type { Layout, StepOptions } from './step/step-options.js';
export { collectiveSeconds } from './timing/collective-seconds.js';
export { matmulBytes } from './timing/matmul-seconds.js';
export { operationsSeconds, type PassSeconds, passSeconds } from './timing/operations-seconds.js';
export { peakFlops } from './timing/peak-flops.js';
