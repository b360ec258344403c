export { checkedOperation } from './checked-operation.js';
export type { OpenCudaOptions } from './cuda/open-cuda.js';
export {
  type Device,
  devices,
  hasValues,
  isDeviceAvailable,
  limitMemory,
  memoryStatistics,
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
export { DeviceGraph, GraphMemory, supportsGraphs } from './graph-memory.js';
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
export { numLiveTensors } from './leak-detection.js';
export type { MemoryStatistics } from './memory-statistics.js';
export type { OperationSchema, OperationStatistics } from './native/kernels-addon.js';
export * from './operations/index.js';
export type { PendingRead } from './pending-read.js';
export type { ReturningOperation } from './returning-operation.js';
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
export { tidy } from './tidy.js';
