export { checkedOperation } from './checked-operation.js';
export { cublasltWorkspaceBytes } from './cuda/cublaslt-workspace-bytes.js';
export { type FoundGpu, findGpu } from './cuda/find-gpu.js';
export { type MatmulCall, MatmulCalls, type MatmulOperand } from './cuda/matmul-calls.js';
export { type MatmulChoices, timeMatmuls, useMatmulChoices } from './cuda/matmul-choices.js';
export {
  type CudaDevice,
  type CudaInformation,
  type CudaProbe,
  type CudaStreams,
  cudaStreams,
  type OpenCudaOptions,
  openCuda,
  probeCuda,
} from './cuda/open-cuda.js';
export {
  type Device,
  deviceOfValues,
  devices,
  hasValues,
  isDeviceAvailable,
  limitMemory,
  memoryStatistics,
  metaDeviceOf,
  openDevice,
  resetPeakMemory,
  synchronize,
  trimMemory,
} from './device.js';
export { DeviceMark, supportsMarks } from './device-mark.js';
export { deviceRange } from './device-range.js';
export {
  bytesPerElement,
  type DType,
  dtypes,
  newTypedArray,
  type TypedArray,
  type TypedArrayOf,
} from './dtype.js';
export { DeviceGraph, GraphMemory, refuseInGraph, supportsGraphs } from './graph-memory.js';
export {
  type HostInformation,
  hostInformation,
  type InstructionSet,
  instructionSets,
  type MatmulLibrary,
  matmulLibraries,
  setInstructionSet,
  setMatmulLibrary,
  setNumThreads,
} from './host.js';
export { numLiveTensors, setPoison } from './leak-detection.js';
export type { MemoryStatistics } from './memory-statistics.js';
export type { OperationSchema, OperationStatistics } from './native/kernels-addon.js';
export * from './operations/index.js';
export type { PendingRead } from './pending-read.js';
export {
  countedFlops,
  listOperations,
  type Operands,
  type OperationCost,
  type OperationObserver,
  observeOperations,
  operationStatistics,
  resetCountedFlops,
  supportsOperation,
} from './run-operation.js';
export type { Slice } from './slice.js';
export {
  bfloat16Bits,
  bfloat16Value,
  float16Bits,
  float16Value,
  sizeOf,
  Tensor,
  type TensorOptions,
} from './tensor.js';
export { tensorApi } from './tensor-api.js';
export { tidy } from './tidy.js';
