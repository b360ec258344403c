export {
  TransformerBlock,
  type TransformerBlockContext,
  type TransformerBlockOptions,
} from './blocks/transformer-block.js';
export {
  checkGptModelConfiguration,
  type GptModelConfiguration,
  numParameters,
  paddedVocabularySize,
} from './gpt/gpt-model-configuration.js';
export { GptStage, type GptStageOptions } from './gpt/gpt-stage.js';
export type { Recomputation } from './gpt/recomputation.js';
export { numLossTokens, type TokenBatch } from './gpt/token-batch.js';
