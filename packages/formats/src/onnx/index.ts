export { type OnnxDtype, onnxDtypeNames } from './dtype-names.js';
export {
  type WriteOnnxBertOptions,
  type WriteOnnxGptOptions,
  writeOnnxBert,
  writeOnnxGpt,
} from './write-onnx.js';
