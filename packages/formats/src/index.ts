export type { WritableDtype } from './huggingface/float-bytes.js';
export type { HuggingFaceOrigin } from './huggingface/huggingface-origin.js';
export { listModelTypes } from './huggingface/model-types.js';
export { huggingFaceModelKind } from './huggingface/open-huggingface-directory.js';
export { parameterTensors } from './huggingface/parameter-tensors.js';
export { readBertTask } from './huggingface/read-bert-task.js';
export { readHuggingFaceBert, readHuggingFaceBertForTask } from './huggingface/read-huggingface-bert.js';
export { readHuggingFaceGpt } from './huggingface/read-huggingface-gpt.js';
export {
  type WriteHuggingFaceBertOptions,
  writeHuggingFaceBert,
  writeHuggingFaceBertForTask,
} from './huggingface/write-huggingface-bert.js';
export type { TokenizerFileSource } from './huggingface/write-huggingface-directory.js';
export { type WriteHuggingFaceGptOptions, writeHuggingFaceGpt } from './huggingface/write-huggingface-gpt.js';
export { isAdapter, type LoraConfiguration } from './lora/lora-configuration.js';
export { specifyLora } from './lora/lora-modules.js';
export { mergedWeights } from './lora/merged-weights.js';
export { readLoraConfiguration } from './lora/read-lora-configuration.js';
export { type LoraDirectory, readLoraDirectory } from './lora/read-lora-directory.js';
export { type WriteLoraDirectoryOptions, writeLoraDirectory } from './lora/write-lora-directory.js';
export { type MegatronModel, readMegatron } from './megatron/read-megatron.js';
export { writeMegatron } from './megatron/write-megatron.js';
