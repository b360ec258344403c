export { findGpu } from '../cuda/find-gpu.js';
export {
  type CudaProbe,
  cublasltWorkspaceBytes,
  cudaStreams,
  openCuda,
  probeCuda,
} from '../cuda/open-cuda.js';
export { deviceOfValues } from '../device.js';
export { refuseInGraph } from '../graph-memory.js';
export { nativeRemedy, tensorApi } from '../native/addon.js';
export { lentMemory } from '../tensor.js';
export { setPoison } from '../tensor-lifetimes.js';
