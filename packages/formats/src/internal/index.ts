export { downloadAdvice } from '../huggingface/download-advice.js';
export { listModelTypes } from '../huggingface/model-types.js';
export { huggingFaceModelKind } from '../huggingface/open-huggingface-directory.js';
export { asStatedBy } from '../huggingface/statable-models.js';
export { tokenizerFilesIn } from '../huggingface/tokenizer-files-in.js';
export { huggingFaceTaskClass } from '../huggingface/write-huggingface-bert.js';
export { isAdapter } from '../lora/lora-configuration.js';
export { loraModules } from '../lora/lora-modules.js';
