// these names have moved to @mtl/layout. This package exports them for one more version
export { type Placement, reductionAxes } from '@mtl/layout';
export { allocateParameters, type ParameterStorage } from './allocate-parameters.js';
export type { Collective, MatmulCollectives, PendingTensor } from './collective.js';
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
export { gelu, squaredRelu, swiglu, tanh } from './operations/activations.js';
export {
  type AdaptedLinearOptions,
  adaptedLinear,
  type LinearAdapter,
  type LinearAdapters,
} from './operations/adapted-linear.js';
export {
  type AttentionOptions,
  attention,
  type PackedRows,
  type VisibilityOptions,
} from './operations/attention.js';
export type { AttendRows, AttentionCall } from './operations/attention-call.js';
export { type AttentionSinks, SinksOfCall } from './operations/attention-sinks.js';
export {
  type BiasDropoutResidualOptions,
  biasDropoutResidual,
  type Dropout,
} from './operations/bias-dropout-residual.js';
export { type CrossEntropyOptions, crossEntropy } from './operations/cross-entropy.js';
export { type EmbeddingLookup, embedding } from './operations/embedding.js';
export {
  type ExpertActivationOptions,
  expertActivation,
  type GroupedBiasOptions,
  groupedBias,
} from './operations/expert-activation.js';
export {
  type CombineRowsOptions,
  combineRows,
  type ExpertGroups,
  type GroupByExpertOptions,
  groupByExpert,
  type PermuteProbabilitiesOptions,
  type PermuteRowsOptions,
  permuteProbabilities,
  permuteRows,
  type RowGrouping,
} from './operations/expert-rows.js';
export { type GatherRowsOptions, gatherRows } from './operations/gather-rows.js';
export {
  type AdaptedGroupedLinearOptions,
  adaptedGroupedLinear,
  type GroupedAdapter,
  type GroupedLinearOptions,
  groupedLinear,
} from './operations/grouped-linear.js';
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
export { type LayerNormOptions, layerNorm, type RmsNormOptions, rmsNorm } from './operations/norms.js';
export {
  type HeadNorm,
  type HeadRotation,
  type PrepareHeadsOptions,
  prepareHeads,
} from './operations/prepare-heads.js';
export { reshape } from './operations/reshape.js';
export {
  type RouteOptions,
  type RouterLinearOptions,
  type Routing,
  route,
  routerLinear,
} from './operations/router.js';
export { type RowGateOptions, rowGate } from './operations/row-gate.js';
export { type Heads, type SplitProjectionOptions, splitProjection } from './operations/split-projection.js';
export { type WholeHeadNormOptions, wholeHeadNorm } from './operations/whole-head-norm.js';
export {
  type Initialization,
  listDomains,
  Parameter,
  type ParameterDomain,
  type ParameterOptions,
  type ScaledPart,
} from './parameter.js';
export { ParameterUnit, type UnitKeeper } from './parameter-unit.js';

export { type PhiloxKey, philox, siteKey } from './random.js';
export { recompute } from './recompute.js';
export { type BackwardCall, type BackwardHalves, Tape, type TapeNode, type TapeOptions } from './tape.js';
export { type Activation, type Part, type Recipe, SavedTensor, Variable } from './variable.js';
