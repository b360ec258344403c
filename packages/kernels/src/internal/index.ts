export { findGpu } from '../cuda/find-gpu.js';
export {
  type CudaProbe,
  cublasltWorkspaceBytes,
  cudaStreams,
  openCuda,
  probeCuda,
} from '../cuda/open-cuda.js';
export { chooseMetaDevice, deviceOfValues, hasValues } from '../device.js';
export { refuseInGraph } from '../graph-memory.js';
export { nativeRemedy, tensorApi } from '../native/addon.js';
export {
  type ChoosingDevice,
  lastMatmulKernel,
  MatmulCalls,
  type MatmulChoices,
  matmulChoicesInUse,
  timeMatmuls,
  useMatmulChoices,
} from '../operations/matmul-choices.js';
export { observeOperations } from '../run-operation.js';
export { bfloat16Value, float16Value, lentMemory } from '../tensor.js';
export { setPoison } from '../tensor-lifetimes.js';
export { transpose } from '../transpose.js';
