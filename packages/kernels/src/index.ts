export { checkedOperation } from './checked-operation.js';
export {
  chooseMetaDevice,
  type Device,
  deviceRange,
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
export { DeviceMark, type PendingRead, supportsMarks } from './device-mark.js';
export {
  bytesPerElement,
  type DType,
  dtypes,
  newTypedArray,
  type TypedArray,
} from './dtype.js';
export { DeviceGraph, GraphMemory, supportsGraphs } from './graph-memory.js';
export {
  type HostInformation,
  hostInformation,
  type InstructionSet,
  setInstructionSet,
  setMatmulLibrary,
  setNumThreads,
} from './host.js';
export * from './operations/index.js';
export type { ReturningOperation } from './returning-operation.js';
export {
  areOperationsObserved,
  countedFlops,
  listOperations,
  type Operands,
  observeOperations,
  operationStatistics,
  resetCountedFlops,
  supportsOperation,
} from './run-operation.js';
export {
  bfloat16Bits,
  bfloat16Value,
  countElements,
  float16Bits,
  float16Value,
  Tensor,
  type TensorOptions,
} from './tensor.js';
export { numLiveTensors, tidy } from './tensor-lifetimes.js';
export { transpose } from './transpose.js';
