export { type OnnxDtype, onnxDtypes } from './storage/dtypes.js';
export {
  type WriteOnnxBertOptions,
  type WriteOnnxGptOptions,
  writeOnnxBert,
  writeOnnxGpt,
} from './write-onnx.js';
