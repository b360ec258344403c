/** ONNX Runtime for the chosen device, under the names that transformers.js imports. */
import { device } from './device.js';

const build = device === 'webgpu' ? './runtime/onnxruntime-webgpu.js' : './runtime/onnxruntime-wasm.js';
const runtime = await import(build);

export const { InferenceSession, Tensor, env } = runtime;
export default runtime.default;
