export { type FoundGpu, findGpu } from '../cuda/find-gpu.js';
export {
  type CudaDevice,
  type CudaInformation,
  type CudaProbe,
  type CudaStreams,
  cublasltWorkspaceBytes,
  cudaStreams,
  openCuda,
  probeCuda,
} from '../cuda/open-cuda.js';
export { deviceOfValues, metaDeviceOf } from '../device.js';
export { refuseInGraph } from '../graph-memory.js';
export { tensorApi } from '../native/addon.js';
export {
  type MatmulCall,
  MatmulCalls,
  type MatmulChoices,
  type MatmulOperand,
  timeMatmuls,
  useMatmulChoices,
} from '../operations/matmul-choices.js';
export { setPoison } from '../tensor-lifetimes.js';
