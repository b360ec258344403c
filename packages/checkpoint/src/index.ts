export { type Dtype, type LogicalTensor, slicesOfFlatRange, type ValueLimit } from '@mtl/layout';
export { Checkpoint, runOfCheckpoint } from './checkpoints/checkpoint.js';
export {
  type CheckpointListing,
  checkpointName,
  listCheckpoints,
  type SkippedCheckpoint,
  trackerName,
} from './checkpoints/checkpoint-directory.js';
export type { JsonObject, JsonValue, TensorRecord } from './checkpoints/manifest.js';
export { OwnedDirectory } from './checkpoints/owned-directory.js';
export { findCheckpoint } from './loading/find-checkpoint.js';
export { loadCheckpoint, type TensorsToLoad } from './loading/load-checkpoint.js';
export { verifyCheckpoint } from './loading/verify-checkpoint.js';
export { SafetensorsDirectory, verifySafetensorsDirectory } from './safetensors/safetensors-directory.js';
export { SafetensorsFile } from './safetensors/safetensors-file.js';
export {
  type TensorSource,
  writeSafetensorsDirectory,
  writeSafetensorsFile,
} from './safetensors/safetensors-writer.js';
export { BackgroundSaver } from './saving/background-saver.js';
export { type SaveOptions, saveCheckpoint } from './saving/save-checkpoint.js';
export { copyBox, type RunPlan, runsOfBox } from './tensors/box-runs.js';
export { dtypeBytes } from './tensors/dtype.js';
export { checkValues } from './tensors/finite-values.js';
export { fillTensor, type HostTensor, hostTensor } from './tensors/logical-tensor.js';
export { DistributedTorchDirectory } from './torch-files/distributed-torch-directory.js';
export { encodeTorchObject } from './torch-files/encode-torch-file.js';
export { PickledGlobal, PickledObject } from './torch-files/read-pickle.js';
export { TorchFile } from './torch-files/torch-file.js';
export { TorchTensor } from './torch-files/torch-tensor.js';
export {
  type DistributedTensorSource,
  writeDistributedTorchDirectory,
} from './torch-files/write-distributed-torch-directory.js';
export { PickledTuple, type PickleValue } from './torch-files/write-pickle.js';
