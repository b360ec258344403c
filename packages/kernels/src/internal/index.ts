export { findGpu } from '../cuda/find-gpu.js';
export {
  type CudaProbe,
  cublasltWorkspaceBytes,
  cudaStreams,
  openCuda,
  probeCuda,
} from '../cuda/open-cuda.js';
export { deviceOfValues, metaDeviceOf } from '../device.js';
export { refuseInGraph } from '../graph-memory.js';
export { tensorApi } from '../native/addon.js';
export {
  MatmulCalls,
  type MatmulChoices,
  timeMatmuls,
  useMatmulChoices,
} from '../operations/matmul-choices.js';
export { setPoison } from '../tensor-lifetimes.js';
