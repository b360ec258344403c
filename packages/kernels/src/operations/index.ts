export {
  type BiasGeluBackwardOptions,
  type BiasGeluForwardOptions,
  type BiasSquaredReluBackwardOptions,
  type BiasSquaredReluForwardOptions,
  type BiasSwigluBackwardOptions,
  type BiasSwigluForwardOptions,
  biasGeluBackward,
  biasGeluForward,
  biasSquaredReluBackward,
  biasSquaredReluForward,
  biasSwigluBackward,
  biasSwigluForward,
  type GeluKind,
  type TanhBackwardOptions,
  type TanhForwardOptions,
  tanhBackward,
  tanhForward,
} from './activations.js';
export { type AdamwOptions, type AdamwScalarsOptions, adamw, adamwScalars } from './adamw.js';
export {
  type AttentionBackwardOptions,
  type AttentionCachedForwardOptions,
  type AttentionDropout,
  type AttentionForwardOptions,
  type AttentionOptions,
  type AttentionRowSumsOptions,
  attentionBackward,
  attentionCachedForward,
  attentionForward,
  attentionRowSums,
  type MergeAttentionOptions,
  mergeAttention,
} from './attention.js';
export {
  type AttentionSinkBackwardOptions,
  type AttentionSinkForwardOptions,
  attentionSinkBackward,
  attentionSinkForward,
} from './attention-sink.js';
export {
  type BiasDropoutResidualBackwardOptions,
  type BiasDropoutResidualForwardOptions,
  biasDropoutResidualBackward,
  biasDropoutResidualForward,
  type DropoutMask,
} from './bias-dropout-residual.js';
export {
  type CrossEntropyBackwardOptions,
  type CrossEntropyRescaleOptions,
  type CrossEntropyStatisticsOptions,
  crossEntropyBackward,
  crossEntropyForwardBackward,
  crossEntropyRescale,
  crossEntropyStatistics,
  type VocabularyColumns,
} from './cross-entropy.js';
export { type AddOptions, add, type CastOptions, cast, type ScaleOptions, scale } from './elementwise.js';
export {
  type EmbeddingBackwardOptions,
  type EmbeddingForwardOptions,
  embeddingBackward,
  embeddingForward,
} from './embedding.js';
export {
  type CombineRowsOptions,
  combineRows,
  type DropOverCapacityOptions,
  dropOverCapacity,
  type GroupByExpertOptions,
  groupByExpert,
  type PermuteRowsOptions,
  permuteRows,
} from './expert-groups.js';
export {
  type ExpertActivation,
  type ExpertActivationBackwardOptions,
  type ExpertActivationForwardOptions,
  type ExpertActivationOptions,
  expertActivationBackward,
  expertActivationForward,
  type GroupedBiasBackwardOptions,
  type GroupedBiasForwardOptions,
  type GroupedMatmulOptions,
  type GroupedSumRowsOptions,
  type GroupedWeightGradientOptions,
  groupedBiasBackward,
  groupedBiasForward,
  groupedMatmul,
  groupedSumRows,
  groupedWeightGradient,
} from './grouped-rows.js';
export {
  type LinearGeluBackwardOptions,
  type LinearGeluForwardOptions,
  type LinearResidualForwardOptions,
  type LinearWeightGradientOptions,
  linearGeluBackward,
  linearGeluForward,
  linearResidualForward,
  linearWeightGradient,
  type MatmulOptions,
  matmul,
} from './matmuls.js';
export {
  type MuonMomentumOptions,
  type MuonNormalizeOptions,
  type MuonPolynomialOptions,
  type MuonUpdateOptions,
  muonMomentum,
  muonNormalize,
  muonPolynomial,
  muonUpdate,
} from './muon.js';
export {
  type LayerNormBackwardOptions,
  type LayerNormForwardOptions,
  layerNormBackward,
  layerNormForward,
  type RmsNormBackwardOptions,
  type RmsNormForwardOptions,
  rmsNormBackward,
  rmsNormForward,
} from './norms.js';
export { type PhiloxNormalOptions, philoxNormal } from './philox-normal.js';
export {
  type JoinRemainderOptions,
  joinRemainder,
  type PrecisionAwareAdamwOptions,
  precisionAwareAdamw,
  type SplitRemainderOptions,
  splitRemainder,
} from './precision-aware-adamw.js';
export {
  type ReductionOptions,
  type RowProductsOptions,
  rowProducts,
  sumOfSquares,
  sumRows,
  type WeightedSumOptions,
  weightedSum,
} from './reductions.js';
export {
  type Llama3Scaling,
  type RotaryEmbeddingOptions,
  type RotaryFrequenciesOptions,
  type RotaryScaling,
  type RotaryTableOptions,
  rotaryEmbedding,
  rotaryFrequencies,
  rotaryTable,
  type YarnScaling,
} from './rotary.js';
export {
  type AddCountsOptions,
  addCounts,
  type RouterBackwardOptions,
  type RouterForwardOptions,
  type RouterScoreFunction,
  type RouterScoreOptions,
  type RouterStatisticsBackwardOptions,
  type RouterStatisticsForwardOptions,
  type RowGateBackwardOptions,
  type RowGateForwardOptions,
  routerBackward,
  routerForward,
  routerStatisticsBackward,
  routerStatisticsForward,
  rowGateBackward,
  rowGateForward,
  type UpdateExpertBiasOptions,
  updateExpertBias,
} from './router.js';
export { queriesAndKeys, type SplitProjection, splitProjection } from './split-projection.js';
export type { PackedQueries, PackedSamples, Visibility } from './visibility.js';
