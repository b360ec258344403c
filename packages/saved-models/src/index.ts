export {
  checkpointToHuggingFace,
  checkpointToLora,
  checkpointToMegatron,
} from './conversion/from-checkpoint.js';
export { mergeLora } from './conversion/merge-lora.js';
export {
  type BegunCheckpoint,
  huggingFaceToCheckpoint,
  megatronToCheckpoint,
} from './conversion/to-checkpoint.js';
export { type LoadedGpt, loadGptForInference } from './inference/load-gpt-for-inference.js';
export type { OpenGptWeightsOptions } from './inference/open-gpt-weights.js';
