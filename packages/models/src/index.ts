export {
  type BertModelConfiguration,
  numBertParameters,
} from './bert/bert-model-configuration.js';
export { type BertPrediction, BertStage, type BertStageOptions } from './bert/bert-stage.js';
export type { MaskedTokenBatch } from './bert/masked-token-batch.js';
export type { Recomputation } from './blocks/recomputation.js';
export {
  type LayerNormPlacement,
  TransformerBlock,
  type TransformerBlockContext,
  type TransformerBlockOptions,
} from './blocks/transformer-block.js';
export { paddedVocabularySize, type TransformerConfiguration } from './blocks/transformer-configuration.js';
export { GptKeyValueCache } from './gpt/gpt-key-value-cache.js';
export { GptLanguageModel, type SequenceTokens } from './gpt/gpt-language-model.js';
export {
  checkGptModelConfiguration,
  type GptModelConfiguration,
  numParameters,
} from './gpt/gpt-model-configuration.js';
export { GptStage, type GptStageOptions } from './gpt/gpt-stage.js';
export { numLossTokens, type TokenBatch } from './gpt/token-batch.js';
export type { WritableDtype } from './huggingface/float-bytes.js';
export { parameterTensors } from './huggingface/parameter-tensors.js';
export { type HuggingFaceBert, readHuggingFaceBert } from './huggingface/read-huggingface-bert.js';
export { type HuggingFaceGpt2, readHuggingFaceGpt2 } from './huggingface/read-huggingface-gpt2.js';
export {
  type WriteHuggingFaceBertOptions,
  writeHuggingFaceBert,
} from './huggingface/write-huggingface-bert.js';
export {
  type WriteHuggingFaceGpt2Options,
  writeHuggingFaceGpt2,
} from './huggingface/write-huggingface-gpt2.js';
