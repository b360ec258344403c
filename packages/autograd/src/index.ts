export { allocateParameters, type ParameterStorage } from './allocate-parameters.js';
export type {
  Collective,
  MatmulCollectives,
  PendingTensor,
} from './collective.js';
export { initializeParameter } from './initialize-parameter.js';
export {
  type ForwardMatmul,
  type FusedMatmuls,
  type InputGradientMatmul,
  type MatmulPrecision,
  type PrecisionState,
  plainPrecision,
  type WeightGradientMatmul,
} from './matmul-precision.js';
export {
  type AdaptedGroupedLinearOptions,
  adaptedGroupedLinear,
  type GroupedAdapter,
} from './operations/adapted-grouped-linear.js';
export {
  type AdaptedLinearOptions,
  adaptedLinear,
  type LinearAdapter,
  type LinearAdapters,
} from './operations/adapted-linear.js';
export { type AttentionOptions, attention, type PackedRows } from './operations/attention.js';
export {
  type BiasDropoutResidualOptions,
  biasDropoutResidual,
  type Dropout,
} from './operations/bias-dropout-residual.js';
export { type CombineRowsOptions, combineRows } from './operations/combine-rows.js';
export { type CrossEntropyOptions, crossEntropy } from './operations/cross-entropy.js';
export { type EmbeddingLookup, embedding } from './operations/embedding.js';
export { type ExpertActivationOptions, expertActivation } from './operations/expert-activation.js';
export { type GatherRowsOptions, gatherRows } from './operations/gather-rows.js';
export { gelu } from './operations/gelu.js';
export {
  type ExpertGroups,
  type GroupByExpertOptions,
  groupByExpert,
  type RowGrouping,
} from './operations/group-by-expert.js';
export { type GroupedBiasOptions, groupedBias } from './operations/grouped-bias.js';
export { type GroupedLinearOptions, groupedLinear } from './operations/grouped-linear.js';
export type { HeadNorm } from './operations/head-norm.js';
export { type LayerNormOptions, layerNorm } from './operations/layer-norm.js';
export {
  type LinearGeluOptions,
  type LinearOptions,
  type LinearResidualOptions,
  linear,
  linearGelu,
  linearResidual,
} from './operations/linear.js';
export {
  type LinearCrossEntropyCollectives,
  type LinearCrossEntropyOptions,
  linearCrossEntropy,
} from './operations/linear-cross-entropy.js';
export { type LogitRowsOptions, logitRowsAtATime } from './operations/logit-rows-at-a-time.js';
export {
  type PermuteProbabilitiesOptions,
  permuteProbabilities,
} from './operations/permute-probabilities.js';
export { type PermuteRowsOptions, permuteRows } from './operations/permute-rows.js';
export {
  type HeadRotation,
  type PrepareHeadsOptions,
  prepareHeads,
} from './operations/prepare-heads.js';
export { reshape } from './operations/reshape.js';
export { type RmsNormOptions, rmsNorm } from './operations/rms-norm.js';
export { type RouteOptions, type Routing, route } from './operations/route.js';
export { type RouterLinearOptions, routerLinear } from './operations/router-linear.js';
export {
  type RouterStatistics,
  type RouterStatisticsOptions,
  routerStatistics,
} from './operations/router-statistics.js';
export { type RowGateOptions, rowGate } from './operations/row-gate.js';
export { squaredRelu } from './operations/squared-relu.js';
export { swiglu } from './operations/swiglu.js';
export { tanh } from './operations/tanh.js';
export { type WholeHeadNormOptions, wholeHeadNorm } from './operations/whole-head-norm.js';
export {
  type Initialization,
  Parameter,
  type ParameterOptions,
} from './parameter.js';
export { domainsOf, type ParameterDomain } from './parameter-domain.js';
export { ParameterUnit, type UnitKeeper } from './parameter-unit.js';
export { philox } from './philox.js';
export { type Placement, reductionAxes } from './placement.js';
export { type PhiloxKey, siteKey } from './random.js';
export { recompute } from './recompute.js';
export { type BackwardCall, type BackwardParts, Tape, type TapeNode, type TapeOptions } from './tape.js';
export { type Activation, type Recipe, SavedTensor, Variable } from './variable.js';
