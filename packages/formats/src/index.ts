export type { WritableDtype } from './huggingface/float-bytes.js';
export { huggingFaceModelKind } from './huggingface/huggingface-model-kind.js';
export type { HuggingFaceOrigin } from './huggingface/huggingface-origin.js';
export {
  type GptTypeName,
  type HuggingFaceModelKind,
  type ModelTypeName,
  modelTypesOf,
} from './huggingface/model-types.js';
export { parameterTensors } from './huggingface/parameter-tensors.js';
export { type HuggingFaceBert, readHuggingFaceBert } from './huggingface/read-huggingface-bert.js';
export {
  type HuggingFaceBertForTask,
  readHuggingFaceBertForTask,
} from './huggingface/read-huggingface-bert-for-task.js';
export { type HuggingFaceGpt, readHuggingFaceGpt } from './huggingface/read-huggingface-gpt.js';
export { asStatedBy } from './huggingface/statable-models.js';
export { tokenizerFilesIn } from './huggingface/tokenizer-files-in.js';
export {
  type WriteHuggingFaceBertOptions,
  writeHuggingFaceBert,
} from './huggingface/write-huggingface-bert.js';
export {
  huggingFaceTaskClass,
  type WriteHuggingFaceBertForTaskOptions,
  writeHuggingFaceBertForTask,
} from './huggingface/write-huggingface-bert-for-task.js';
export type { TokenizerFileSource } from './huggingface/write-huggingface-directory.js';
export { type WriteHuggingFaceGptOptions, writeHuggingFaceGpt } from './huggingface/write-huggingface-gpt.js';
export { isAdapter } from './lora/is-adapter.js';
export type { LoraConfiguration } from './lora/lora-configuration.js';
export { type LoraModule, loraModules } from './lora/lora-modules.js';
export { loraSpecificationOf } from './lora/lora-specification-of.js';
export { mergedWeights } from './lora/merged-weights.js';
export { readLoraConfiguration } from './lora/read-lora-configuration.js';
export { type LoraDirectory, readLoraDirectory } from './lora/read-lora-directory.js';
export { type WriteLoraDirectoryOptions, writeLoraDirectory } from './lora/write-lora-directory.js';
export { type MegatronModel, type MegatronOptimizer, readMegatron } from './megatron/read-megatron.js';
export { type WriteMegatronOptions, writeMegatron } from './megatron/write-megatron.js';
