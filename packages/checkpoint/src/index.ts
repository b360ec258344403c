export type { Slice } from '@mtl/kernels';
export { BackgroundSaver } from './background/background-saver.js';
export { Checkpoint } from './checkpoint.js';
export { checkpointName, trackerName } from './checkpoint-names.js';
export type { SaveBarrier, SaveOptions, SaveResult } from './checkpoint-save.js';
export { copyBox } from './copy-box.js';
export { type Dtype, dtypeBytes, isDtype } from './dtype.js';
export type { FileSystem } from './file-system.js';
export { type FoundCheckpoint, findCheckpoint } from './find-checkpoint.js';
export { inAlignedOrder } from './in-aligned-order.js';
export { jobOfCheckpoint } from './job-of-checkpoint.js';
export type { JsonObject, JsonValue } from './json-state.js';
export { type CheckpointListing, listCheckpoints, type SkippedCheckpoint } from './list-checkpoints.js';
export { type LoadResult, loadCheckpoint } from './load-checkpoint.js';
export { hostTensor, type LogicalTensor } from './logical-tensor.js';
export type { Manifest, PieceRecord, ShardRecord, TensorRecord } from './manifest.js';
export { type OwnDirectoryOptions, OwnedDirectory } from './owned-directory.js';
export { prepareSaveDirectory } from './prepare-save-directory.js';
export { SafetensorsDirectory } from './safetensors-directory.js';
export { SafetensorsFile } from './safetensors-file.js';
export type { SafetensorsEntry, TensorDeclaration } from './safetensors-header.js';
export { SafetensorsWriter, type WrittenSafetensors, type WrittenTensor } from './safetensors-writer.js';
export { saveCheckpoint } from './save-checkpoint.js';
export { type FlatRangePart, slicesOfFlatRange } from './slices-of-flat-range.js';
export { DistributedTorchDirectory } from './torch-files/distributed-torch-directory.js';
export { encodeTorchObject } from './torch-files/encode-torch-file.js';
export { PickledGlobal, PickledObject } from './torch-files/pickled-object.js';
export { TorchFile } from './torch-files/torch-file.js';
export { TorchTensor } from './torch-files/torch-tensor.js';
export {
  type DistributedTensorSource,
  writeDistributedTorchDirectory,
} from './torch-files/write-distributed-torch-directory.js';
export { PickledTuple, type PickleValue } from './torch-files/write-pickle.js';
export { checkValues, type ValueCheck, type ValueLimit } from './value-check.js';
export { verifyCheckpoint } from './verify-checkpoint.js';
export { verifySafetensorsDirectory } from './verify-safetensors-directory.js';
export {
  type TensorSource,
  writeSafetensorsDirectory,
  writeSafetensorsFile,
} from './write-safetensors-directory.js';
