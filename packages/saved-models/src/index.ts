export { checkpointToLora } from './adapters/checkpoint-to-lora.js';
export { mergeLora } from './adapters/merge-lora.js';
export { checkpointToHuggingFace, checkpointToMegatron } from './conversion/from-checkpoint.js';
export {
  type BegunCheckpoint,
  huggingFaceToCheckpoint,
  megatronToCheckpoint,
} from './conversion/to-checkpoint.js';
export { type LoadedGpt, loadGptForInference } from './inference/load-gpt-for-inference.js';
export type { OpenGptWeightsOptions } from './inference/open-gpt-weights.js';
