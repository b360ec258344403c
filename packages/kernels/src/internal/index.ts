export { cublasltWorkspaceBytes } from '../cuda/cublaslt-workspace-bytes.js';
export { type FoundGpu, findGpu } from '../cuda/find-gpu.js';
export { type MatmulCall, MatmulCalls, type MatmulOperand } from '../cuda/matmul-calls.js';
export { type MatmulChoices, timeMatmuls, useMatmulChoices } from '../cuda/matmul-choices.js';
export {
  type CudaDevice,
  type CudaInformation,
  type CudaProbe,
  type CudaStreams,
  cudaStreams,
  openCuda,
  probeCuda,
} from '../cuda/open-cuda.js';
export { deviceOfValues, metaDeviceOf } from '../device.js';
export { refuseInGraph } from '../graph-memory.js';
export { setPoison } from '../leak-detection.js';
export { tensorApi } from '../tensor-api.js';
