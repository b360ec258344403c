export type { MaskedTokenBatch } from '@mtl/data';
export type { TaskTokenBatch } from '@mtl/data/tasks';
export { bertBlock } from './bert/bert-block.js';
export type { BertStageOptions } from './bert/bert-encoder-stage.js';
export { bertMatmuls } from './bert/bert-matmuls.js';
export { type BertModelConfiguration, numBertParameters } from './bert/bert-model-configuration.js';
export { bertParameterNames } from './bert/bert-parameter-names.js';
export { type BertPrediction, BertStage } from './bert/bert-stage.js';
export type { BertTask } from './bert/bert-task.js';
export { bertTaskParameters } from './bert/bert-task-parameters.js';
export { BertTaskStage, type BertTaskStageOptions, type TaskLoss } from './bert/bert-task-stage.js';
export type { BertBatchOutline, MaskedStageBatch } from './bert/masked-stage-batch.js';
export { ActivatedFeedForward, type FeedForwardSpecification } from './blocks/activated-feed-forward.js';
export type { BlockAdapter } from './blocks/block-adapter.js';
export { attentions, feedForwards, norms } from './blocks/block-kinds.js';
export type { BlockOfLayer, BlockSpecification, LayerNormPlacement } from './blocks/block-specification.js';
export type { BlockVariants } from './blocks/block-variants.js';
export { elementwiseActivation, type FeedForwardActivation } from './blocks/feed-forward-activation.js';
export type { GeluFeedForwardSpecification } from './blocks/gelu-feed-forward-specification.js';
export type { KindRegistry } from './blocks/kind-registry.js';
export type { LayerLosses } from './blocks/layer-losses.js';
export type { LoraSpecification, LoraTarget } from './blocks/lora-specification.js';
export type { MatmulCost } from './blocks/matmul-cost.js';
export type { AttendCall, DropoutSite, MicroBatchContext } from './blocks/micro-batch-context.js';
export { type ModelBlocks, type ModelBlocksOptions, registerModelBlocks } from './blocks/model-blocks.js';
export type { Norm, NormOptions, NormSpecification } from './blocks/norm.js';
export type { PositionTable } from './blocks/position-table.js';
export { PositionTables } from './blocks/position-tables.js';
export {
  numLearnedPositions,
  type PositionEmbeddingType,
  type PositionVariants,
} from './blocks/position-variants.js';
export { type RecomputableModule, type Recomputation, recomputableModules } from './blocks/recomputation.js';
export type { RotarySpecification } from './blocks/rotary-positions.js';
export type { RowCoordinate, RowCoordinates } from './blocks/row-coordinates.js';
export type { AttentionSpecification, QueryKeyNormSpecification } from './blocks/self-attention.js';
export {
  type AttentionCall,
  type OwnRows,
  type SequencePartition,
  wholeSequence,
} from './blocks/sequence-partition.js';
export type { LossVariables } from './blocks/stage-losses.js';
export type { BlockInitialization, Sublayer, SublayerInput, SublayerOptions } from './blocks/sublayer.js';
export { TransformerBlock, type TransformerBlockOptions } from './blocks/transformer-block.js';
export { paddedVocabularySize, type TransformerConfiguration } from './blocks/transformer-configuration.js';
export { balancingLossNames } from './experts/balancing-losses.js';
export type { ExpertLoad } from './experts/expert-load.js';
export {
  type ExpertVariants,
  hasExperts,
  type LoadBalancingType,
  type RouterScoreFunction,
  type TokenDropPolicy,
} from './experts/expert-variants.js';
export type { ExpertsSpecification } from './experts/experts-specification.js';
export { expertsSpecificationOf } from './experts/experts-specification-of.js';
export { denseModelOf, denseNameOf, expertVariantsOf, upcycledTensors } from './experts/upcycled-tensors.js';
export { gptBlock, gptBlocks } from './gpt/gpt-block.js';
export { GptKeyValueCache } from './gpt/gpt-key-value-cache.js';
export { GptLanguageModel, type SequenceTokens } from './gpt/gpt-language-model.js';
export { gptMatmuls } from './gpt/gpt-matmuls.js';
export { type GptModelOptions, gptModel } from './gpt/gpt-model.js';
export type { GptModelConfiguration } from './gpt/gpt-model-configuration.js';
export { gptParameterNames } from './gpt/gpt-parameter-names.js';
export { gptParameters } from './gpt/gpt-parameters.js';
export { GptStage, type GptStageOptions } from './gpt/gpt-stage.js';
export { numActiveParameters, numLayerWeights, numParameters } from './gpt/num-parameters.js';
export type { PipelinedGpt } from './gpt/stage-chain.js';
export {
  type BatchOutline,
  numLossTokens,
  type StageBatch,
  sequenceFirst,
  type TokenBatch,
} from './gpt/token-batch.js';
export { modelParameters } from './model-parameters.js';
export { bertEmbeddingAndHeadCost } from './partition/bert-embedding-and-head-cost.js';
export { bertTaskEmbeddingAndHeadCost } from './partition/bert-task-embedding-and-head-cost.js';
export {
  type BertStages,
  type BuildBertStagesOptions,
  buildBertStages,
} from './partition/build-bert-stages.js';
export {
  type BertTaskStages,
  type BuildBertTaskStagesOptions,
  buildBertTaskStages,
} from './partition/build-bert-task-stages.js';
export { type BuildGptStagesOptions, buildGptStages, type GptStages } from './partition/build-gpt-stages.js';
export type { BuildStagesOptions, Stages } from './partition/build-stages.js';
export { gptEmbeddingAndHeadCost } from './partition/gpt-embedding-and-head-cost.js';
export {
  type EmbeddingAndHeadCost,
  type LayerLayout,
  type PartitionLayersOptions,
  partitionLayers,
} from './partition/partition-layers.js';
