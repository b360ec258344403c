export {
  type ColumnParallelAdapterOptions,
  type ColumnParallelLinearGeluOptions,
  type ColumnParallelLinearOptions,
  type ColumnParallelParametersOptions,
  columnParallelAdapter,
  columnParallelLinear,
  columnParallelLinearGelu,
  columnParallelParameters,
} from './column-parallel.js';
export {
  joinShares,
  type PendingVariable,
  shareOfRows,
} from './communicate.js';
export {
  type DispatchedTokens,
  type DispatchTokensOptions,
  dispatchTokens,
  type SentTokens,
} from './dispatch-tokens.js';
export {
  type AssumedRouting,
  type ExpertAdapterOptions,
  type ExpertParallel,
  type ExpertParametersOptions,
  expertAdapter,
  expertParameters,
  placeAmongExperts,
  type TokenDispatcher,
} from './expert-parallel.js';
export { type GatherRowsOptions, gatherRows } from './gather-rows.js';
export { type RegionCollectives, regionCollectives, sumOverRanks } from './region-collectives.js';
export { type ReplicatedParameterOptions, replicatedParameter } from './replicated-parameter.js';
export {
  type RowParallelAdapterOptions,
  type RowParallelLinearOptions,
  type RowParallelParametersOptions,
  rowParallelAdapter,
  rowParallelLinear,
  rowParallelParameters,
} from './row-parallel.js';
export { isSharded, sliceOfRank, type TensorParallel } from './tensor-parallel.js';
export {
  type VocabularyParallelCrossEntropyOptions,
  type VocabularyParallelEmbeddingOptions,
  vocabularyParallelCrossEntropy,
  vocabularyParallelEmbedding,
} from './vocabulary-parallel.js';
