export { type ColumnParallelAdapterOptions, columnParallelAdapter } from './column-parallel-adapter.js';
export {
  type ColumnParallelLinearGeluOptions,
  type ColumnParallelLinearOptions,
  columnParallelLinear,
  columnParallelLinearGelu,
} from './column-parallel-linear.js';
export {
  type ColumnParallelParametersOptions,
  columnParallelParameters,
} from './column-parallel-parameters.js';
export {
  type CommunicateOptions,
  communicate,
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
  type ExpertParallel,
  placeAmongExperts,
  type TokenDispatcher,
} from './expert-parallel.js';
export { type GatherRowsOptions, gatherRows } from './gather-rows.js';
export { isSharded } from './is-sharded.js';
export { type RegionCollectives, regionCollectives, sumOverRanks } from './region-collectives.js';
export { type ReplicatedParameterOptions, replicatedParameter } from './replicated-parameter.js';
export { type RowParallelAdapterOptions, rowParallelAdapter } from './row-parallel-adapter.js';
export { type RowParallelLinearOptions, rowParallelLinear } from './row-parallel-linear.js';
export { type RowParallelParametersOptions, rowParallelParameters } from './row-parallel-parameters.js';
export { sliceOfRank } from './slice-of-rank.js';
export type { TensorParallel } from './tensor-parallel.js';
export {
  type VocabularyParallelCrossEntropyOptions,
  vocabularyParallelCrossEntropy,
} from './vocabulary-parallel-cross-entropy.js';
export {
  type VocabularyParallelEmbeddingOptions,
  vocabularyParallelEmbedding,
} from './vocabulary-parallel-embedding.js';
