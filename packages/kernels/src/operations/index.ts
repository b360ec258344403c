export { type AdamwOptions, type AdamwScalarsOptions, adamw, adamwScalars } from './adamw.js';
export {
  type AttentionBackwardOptions,
  type AttentionDropout,
  type AttentionForwardOptions,
  type AttentionOptions,
  attentionBackward,
  attentionForward,
  type PackedQueries,
  type PackedSamples,
} from './attention.js';
export { type AttentionCachedForwardOptions, attentionCachedForward } from './attention-cached.js';
export { type AttentionRowSumsOptions, attentionRowSums } from './attention-row-sums.js';
export {
  type BiasDropoutResidualBackwardOptions,
  type BiasDropoutResidualForwardOptions,
  biasDropoutResidualBackward,
  biasDropoutResidualForward,
  type DropoutMask,
} from './bias-dropout-residual.js';
export {
  type BiasGeluBackwardOptions,
  type BiasGeluForwardOptions,
  biasGeluBackward,
  biasGeluForward,
  type GeluKind,
} from './bias-gelu.js';
export {
  type BiasSquaredReluBackwardOptions,
  type BiasSquaredReluForwardOptions,
  biasSquaredReluBackward,
  biasSquaredReluForward,
} from './bias-squared-relu.js';
export {
  type BiasSwigluBackwardOptions,
  type BiasSwigluForwardOptions,
  biasSwigluBackward,
  biasSwigluForward,
} from './bias-swiglu.js';
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
  type ExpertActivation,
  type ExpertActivationBackwardOptions,
  type ExpertActivationForwardOptions,
  type ExpertActivationOptions,
  expertActivationBackward,
  expertActivationForward,
} from './expert-activation.js';
export {
  type AddCountsOptions,
  addCounts,
  type UpdateExpertBiasOptions,
  updateExpertBias,
} from './expert-bias.js';
export {
  type DropOverCapacityOptions,
  dropOverCapacity,
  type GroupByExpertOptions,
  groupByExpert,
} from './expert-groups.js';
export {
  type GroupedBiasBackwardOptions,
  type GroupedBiasForwardOptions,
  type GroupedSumRowsOptions,
  groupedBiasBackward,
  groupedBiasForward,
  groupedSumRows,
} from './grouped-bias.js';
export {
  type GroupedMatmulOptions,
  type GroupedWeightGradientOptions,
  groupedMatmul,
  groupedWeightGradient,
} from './grouped-matmul.js';
export {
  type LayerNormBackwardOptions,
  type LayerNormForwardOptions,
  layerNormBackward,
  layerNormForward,
} from './layer-norm.js';
export {
  type LinearGeluBackwardOptions,
  type LinearGeluForwardOptions,
  type LinearResidualForwardOptions,
  type LinearWeightGradientOptions,
  linearGeluBackward,
  linearGeluForward,
  linearResidualForward,
  linearWeightGradient,
} from './linear.js';
export { type MatmulOptions, matmul } from './matmul.js';
export { type MergeAttentionOptions, mergeAttention } from './merge-attention.js';
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
  type CombineRowsOptions,
  combineRows,
  type PermuteRowsOptions,
  permuteRows,
} from './permute-rows.js';
export { type PhiloxNormalOptions, philoxNormal } from './philox-normal.js';
export {
  type ReductionOptions,
  sumOfSquares,
  sumRows,
  type WeightedSumOptions,
  weightedSum,
} from './reductions.js';
export {
  type RmsNormBackwardOptions,
  type RmsNormForwardOptions,
  rmsNormBackward,
  rmsNormForward,
} from './rms-norm.js';
export { type RotaryEmbeddingOptions, rotaryEmbedding } from './rotary-embedding.js';
export type { Llama3Scaling, RotaryScaling, YarnScaling } from './rotary-scaling.js';
export {
  type RotaryFrequenciesOptions,
  type RotaryTableOptions,
  rotaryFrequencies,
  rotaryTable,
} from './rotary-table.js';
export {
  type RouterBackwardOptions,
  type RouterForwardOptions,
  type RouterScoreFunction,
  type RouterScoreOptions,
  routerBackward,
  routerForward,
} from './router.js';
export {
  type RouterStatisticsBackwardOptions,
  type RouterStatisticsForwardOptions,
  routerStatisticsBackward,
  routerStatisticsForward,
} from './router-statistics.js';
export {
  type RowGateBackwardOptions,
  type RowGateForwardOptions,
  rowGateBackward,
  rowGateForward,
} from './row-gate.js';
export { type RowProductsOptions, rowProducts } from './row-products.js';
export { queriesAndKeys, type SplitProjection, splitProjection } from './split-projection.js';
export { type TanhBackwardOptions, type TanhForwardOptions, tanhBackward, tanhForward } from './tanh.js';
