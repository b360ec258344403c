export { downloadAdvice } from '../huggingface/download-advice.js';
export { publishDirectory } from '../huggingface/publish-directory.js';
export { asStatedBy } from '../huggingface/statable-models.js';
export { tokenizerFilesIn } from '../huggingface/tokenizer-files-in.js';
export { huggingFaceTaskClass } from '../huggingface/write-huggingface-bert.js';
export { loraModules } from '../lora/lora-modules.js';
export { onnxDtypeNames } from '../onnx/dtype-names.js';
