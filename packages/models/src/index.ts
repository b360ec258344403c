export type { AttentionCall } from '@mtl/autograd';
export type {
  MaskedTokenBatch,
  /** @deprecated Import `SequencesOfBatch` from @mtl/layout. */
  SequencesOfBatch as BatchOutline,
  TaskTokenBatch,
  TokenBatch,
} from '@mtl/layout';
export type { BertStageOptions } from './bert/bert-encoder-stage.js';
export { type BertModelConfiguration, type BertTask, bertBlock } from './bert/bert-model.js';
export { type BertPrediction, BertStage } from './bert/bert-stage.js';
export { BertTaskStage, type BertTaskStageOptions, type TaskLoss } from './bert/bert-task-stage.js';
export type { BertBatchOutline, MaskedStageBatch } from './bert/masked-batch-to-device.js';
export {
  ActivatedFeedForward,
  elementwiseActivation,
  type FeedForwardActivation,
  type FeedForwardSpecification,
  type GeluFeedForwardSpecification,
} from './blocks/feed-forward.js';
export type { HeadScores } from './blocks/head-scores.js';
export { LayerFactory } from './blocks/layer-factory.js';
export type { LayerFactoryOptions, LayerSharding } from './blocks/layer-sharding.js';
export type { ColumnLayer, ExpertLayer, LinearCall, RowLayer } from './blocks/linear-layers.js';
export type { BlockAdapter, LoraSpecification, LoraTarget } from './blocks/lora.js';
export type { AttendCall, DropoutSite, MicroBatchContext } from './blocks/micro-batch-context.js';
export type { Norm, NormOptions, NormSpecification } from './blocks/norms.js';
export type { PositionTable, PositionTables } from './blocks/position-tables.js';
export { type RecomputableModule, type Recomputation, recomputableModules } from './blocks/recomputation.js';
export {
  llama3Scaling,
  type RotarySpecification,
  yarnConcentration,
  yarnScaling,
} from './blocks/rotary-positions.js';
export type { RowCoordinate, RowCoordinates } from './blocks/row-coordinates.js';
export type { AttentionSpecification, QueryKeyNormSpecification } from './blocks/self-attention.js';
export type { OwnRows, SequencePartition } from './blocks/sequence-partition.js';
export type { LayerLosses, LossVariables } from './blocks/stage-losses.js';
export type { BlockInitialization, Sublayer, SublayerInput, SublayerOptions } from './blocks/sublayer.js';
export {
  type BlockVariants,
  computeHeadSize,
  hasNormBiases,
  hasRotaryPositions,
  isListedLayer,
  isRotatedLayer,
  type LayerList,
  type ModelOfBlocks,
  numLearnedPositions,
  type PositionEmbeddingType,
  type PositionVariants,
  paddedVocabularySize,
  type TransformerConfiguration,
  windowOfLayer,
  type YarnVariants,
} from './blocks/transformer-configuration.js';
export {
  type ExpertsSpecification,
  type ExpertVariants,
  hasExperts,
  type LoadBalancingType,
  type RouterScoreFunction,
  type TokenDropPolicy,
} from './experts/experts-specification.js';
export type { GptKeyValueCache } from './gpt/gpt-key-value-cache.js';
export { GptLanguageModel, type SequenceTokens } from './gpt/gpt-language-model.js';
export {
  type GptModelConfiguration,
  type GptModelOptions,
  gptBlock,
  gptBlocks,
  gptModel,
} from './gpt/gpt-model.js';
export { GptStage, type GptStageOptions } from './gpt/gpt-stage.js';
export type { PipelinedGpt } from './gpt/stage-chain.js';
export { numLossTokens, type StageBatch, sequenceFirst } from './gpt/token-batch.js';
export {
  findDenseName,
  makeDenseModel,
  pickExpertVariants,
  upcycledTensors,
} from './gpt/upcycled-tensors.js';
export {
  bertMatmuls,
  bertTaskParameters,
  gptMatmuls,
  gptParameters,
  modelParameters,
  numActiveParameters,
  numParameters,
} from './model-parameters.js';
export {
  type BertStages,
  type BertTaskStages,
  type BuildBertStagesOptions,
  type BuildBertTaskStagesOptions,
  type BuildGptStagesOptions,
  type BuildStagesOptions,
  buildBertStages,
  buildBertTaskStages,
  buildGptStages,
  type GptStages,
  type Stages,
} from './partition/build-stages.js';
export {
  bertEmbeddingAndHeadCost,
  bertTaskEmbeddingAndHeadCost,
  gptEmbeddingAndHeadCost,
} from './partition/embedding-and-head-costs.js';
export {
  type EmbeddingAndHeadCost,
  type LayerLayout,
  type PartitionLayersOptions,
  partitionLayers,
} from './partition/partition-layers.js';
export type { ExpertLoad } from './routing/expert-load.js';
export {
  attentions,
  type DescribeAttention,
  feedForwards,
  type KindRegistry,
  norms,
} from './stages/block-kinds.js';
export {
  type BlockOfLayer,
  type BlockSpecification,
  type LayerNormPlacement,
  type ModelBlocks,
  type ModelBlocksOptions,
  registerModelBlocks,
} from './stages/block-specification.js';
export type { TransformerBlock } from './stages/transformer-block.js';
