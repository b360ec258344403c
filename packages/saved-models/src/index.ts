export {
  type CheckpointToHuggingFaceOptions,
  checkpointToHuggingFace,
} from './conversion/checkpoint-to-hugging-face.js';
export { type CheckpointToLoraOptions, checkpointToLora } from './conversion/checkpoint-to-lora.js';
export { checkpointToMegatron } from './conversion/checkpoint-to-megatron.js';
export { type BegunCheckpoint, huggingFaceToCheckpoint } from './conversion/hugging-face-to-checkpoint.js';
export { megatronToCheckpoint } from './conversion/megatron-to-checkpoint.js';
export { type MergeLoraOptions, mergeLora } from './conversion/merge-lora.js';
export {
  type LoadedGpt,
  type LoadGptForInferenceOptions,
  loadGptForInference,
} from './inference/load-gpt-for-inference.js';
export { type GptWeights, type OpenGptWeightsOptions, openGptWeights } from './inference/open-gpt-weights.js';
export { readLoadedFlags } from './read-loaded-flags.js';
