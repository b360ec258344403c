import type { ExpertActivation } from '@mtl/kernels';
import type { FeedForwardSpecification } from '../blocks/feed-forward.js';
import type { BlockVariants, TransformerConfiguration } from '../blocks/transformer-configuration.js';

/** The function that turns the router's logits into scores of experts. */
export type RouterScoreFunction = 'softmax' | 'sigmoid' | 'sqrtsoftplus';

/**
 * The losses that encourage even loads of the experts:
 * - `aux_loss`: computed over the tokens of each micro-batch, so it depends on how the global batch is split
 * - `seq_aux_loss`: computed over the tokens of each sequence
 * - `global_aux_loss`: computed over the tokens of the global batch, with the loads of the previous step
 */
export type LoadBalancingType = 'aux_loss' | 'seq_aux_loss' | 'global_aux_loss' | 'none';

/**
 * The order in which assignments are dropped if an expert exceeds its capacity: by probability or by
 * position.
 */
export type TokenDropPolicy = 'probs' | 'position';

/**
 * A mixture of experts in place of feed-forward networks (Shazeer et al. 2017), with Megatron-LM's names and
 * defaults. Without `numExperts` the model has no experts, and the other properties are unused.
 */
export interface ExpertVariants {
  /** E: the number of routed experts of a layer. Absent: feed-forward networks are dense. */
  readonly numExperts?: number | undefined;
  /**
   * The layers with experts: every Nth layer beginning with the first, or a list with 1 for each layer with
   * experts and 0 for each dense layer. Absent: 1.
   */
  readonly moeLayerFreq?: number | readonly number[] | undefined;
  /** F: the feed-forward width of an expert. Absent: `ffnHiddenSize`, the width of dense layers. */
  readonly moeFfnHiddenSize?: number | undefined;
  /** k: the number of routed experts that each token uses. Absent: 2. */
  readonly moeRouterTopk?: number | undefined;
  /** The function that turns the router's logits into scores. Absent: softmax. */
  readonly moeRouterScoreFunction?: RouterScoreFunction | undefined;
  /**
   * True if the softmax is computed over all experts, before k experts are chosen. False if it is computed
   * over only the chosen experts. Other score functions ignore this property, as in Megatron-LM.
   */
  readonly moeRouterPreSoftmax?: boolean | undefined;
  /** A number by which the probabilities of the chosen experts are multiplied. Absent: 1. */
  readonly moeRouterTopkScalingFactor?: number | undefined;
  /**
   * The number of expert groups; a token may use experts from only `moeRouterGroupTopk` groups. Absent: any
   * experts.
   */
  readonly moeRouterNumGroups?: number | undefined;
  readonly moeRouterGroupTopk?: number | undefined;
  /**
   * True if each expert has a bias that is added to its score for the choice of experts. Each step moves the
   * biases towards even loads.
   */
  readonly moeRouterEnableExpertBias?: boolean | undefined;
  /** The amount by which a step moves the bias of an expert. Absent: 1e-3. */
  readonly moeRouterBiasUpdateRate?: number | undefined;
  /** The types of the load-balancing losses. Absent: aux_loss. */
  readonly moeRouterLoadBalancingType?: readonly LoadBalancingType[] | undefined;
  /** The coefficient of each load-balancing loss, in the order of the types. Absent: 0. */
  readonly moeAuxLossCoeff?: readonly number[] | undefined;
  /**
   * The coefficient of the z-loss, the mean squared log-sum-exp of the router's logits (Zoph et al. 2022).
   * Absent: no z-loss.
   */
  readonly moeZLossCoeff?: number | undefined;
  /**
   * The total feed-forward width of the shared experts, which every token uses. Absent: no shared experts.
   */
  readonly moeSharedExpertIntermediateSize?: number | undefined;
  /**
   * True if the output of the shared experts is multiplied by a gate, the sigmoid of a learned projection.
   */
  readonly moeSharedExpertGate?: boolean | undefined;
  /**
   * The capacity of an expert as a multiple of its even share of the assignments. Absent: nothing is dropped.
   */
  readonly moeExpertCapacityFactor?: number | undefined;
  /** The order in which assignments beyond the capacity are dropped. Absent: probs. */
  readonly moeTokenDropPolicy?: TokenDropPolicy | undefined;
  /** True if feed-forward networks are gated by x sigmoid(1.702 x) (gpt-oss). */
  readonly quickGeglu?: boolean | undefined;
  /**
   * A number that is added to the values of gated networks before the multiplication by the gates. Absent: 0.
   */
  readonly gluLinearOffset?: number | undefined;
  /** The upper limit of gates, and of the magnitude of values. Absent: no limit. */
  readonly activationFuncClampValue?: number | undefined;
}

/** Returns true if a layer has experts. `layer`: the global index. */
export function hasExperts(
  { numExperts, moeLayerFreq = 1 }: Pick<ExpertVariants, 'numExperts' | 'moeLayerFreq'>,
  layer: number,
): boolean {
  if (numExperts === undefined) return false;
  return typeof moeLayerFreq === 'number' ? layer % moeLayerFreq === 0 : moeLayerFreq[layer] === 1;
}

/** The activation between the two layers of an expert. */
export interface ExpertActivationSpecification {
  readonly kind: ExpertActivation;
  /** The upper limit of gates, and of the magnitude of values. Absent: no limit. */
  readonly clamp?: number | undefined;
  /** A number that is added to the values of gated experts. Absent: 0. */
  readonly linearOffset?: number | undefined;
}

/** Returns true if the first layer of an expert has gates and values. */
export const isGated = ({ kind }: ExpertActivationSpecification): boolean =>
  kind === 'swiglu' || kind === 'clampedQuickGeglu';

/** The rules by which a router chooses the experts of a token. */
interface RouterSpecification {
  readonly scoreFunction: RouterScoreFunction;
  readonly preSoftmax: boolean;
  readonly scalingFactor: number;
  readonly bias: boolean;
  /**
   * The number of expert groups, and the number of groups from which a token may use experts. Absent: any
   * experts.
   */
  readonly groups?: { readonly number: number; readonly topK: number } | undefined;
  /**
   * Gives each expert a bias that is added to its score for the choice of experts. Each step moves a bias by
   * `updateRate`. Absent: no bias.
   */
  readonly expertBias?: { readonly updateRate: number } | undefined;
}

/** A loss that encourages even loads of the experts, with its coefficient. */
export interface BalancingLoss {
  readonly type: Exclude<LoadBalancingType, 'none'>;
  readonly coefficient: number;
}

/** The fields of the kind `mixture-of-experts`. `ffnHiddenSize` is F, the width of an expert. */
export interface ExpertsSpecification extends FeedForwardSpecification {
  readonly kind: 'mixture-of-experts';
  /** E: the number of routed experts of a layer. */
  readonly numExperts: number;
  /** k: the number of routed experts that each token uses. */
  readonly topK: number;
  readonly activation: ExpertActivationSpecification;
  readonly router: RouterSpecification;
  readonly balancingLosses: readonly BalancingLoss[];
  /**
   * The coefficient of the z-loss, the mean squared log-sum-exp of the router's logits. Absent: no z-loss.
   */
  readonly zLossCoefficient?: number | undefined;
  /** Shared experts, which every token uses: their total width, and the existence of a gate. Absent: none. */
  readonly shared?: { readonly ffnHiddenSize: number; readonly gate: boolean } | undefined;
  /** The capacity of the experts. Absent: nothing is dropped. */
  readonly capacity?: { readonly factor: number; readonly policy: TokenDropPolicy } | undefined;
}

type Model = TransformerConfiguration & BlockVariants & ExpertVariants;

/** Returns the specification of a model's mixture of experts, with Megatron-LM's defaults. */
export function specifyExperts(model: Model): ExpertsSpecification {
  const { numExperts = 1, moeRouterTopk: topK = 2, addBiasLinear: bias = true } = model;
  const { moeRouterNumGroups, moeRouterGroupTopk, moeExpertCapacityFactor: factor } = model;
  const { moeRouterEnableExpertBias = false, moeRouterBiasUpdateRate: updateRate = 1e-3 } = model;
  const { moeSharedExpertIntermediateSize: sharedWidth, moeSharedExpertGate: gate = false } = model;
  const { moeTokenDropPolicy: policy = 'probs', moeRouterScoreFunction: scoreFunction = 'softmax' } = model;
  return {
    kind: 'mixture-of-experts',
    ffnHiddenSize: model.moeFfnHiddenSize ?? model.ffnHiddenSize,
    bias,
    numExperts,
    topK,
    activation: describeActivation(model),
    router: {
      scoreFunction,
      preSoftmax: scoreFunction === 'softmax' && (model.moeRouterPreSoftmax ?? false),
      scalingFactor: model.moeRouterTopkScalingFactor ?? 1,
      bias,
      ...(moeRouterNumGroups !== undefined && {
        groups: { number: moeRouterNumGroups, topK: moeRouterGroupTopk ?? moeRouterNumGroups },
      }),
      ...(moeRouterEnableExpertBias && { expertBias: { updateRate } }),
    },
    balancingLosses: listBalancingLosses(model),
    zLossCoefficient: model.moeZLossCoeff,
    ...(sharedWidth !== undefined && { shared: { ffnHiddenSize: sharedWidth, gate } }),
    ...(factor !== undefined && { capacity: { factor, policy } }),
  };
}

function describeActivation(model: Model): ExpertActivationSpecification {
  const { swiglu = false, squaredRelu = false, quickGeglu = false, geluKind } = model;
  const kind = swiglu
    ? 'swiglu'
    : squaredRelu
      ? 'squaredRelu'
      : quickGeglu
        ? 'clampedQuickGeglu'
        : geluKind === 'erf'
          ? 'geluErf'
          : 'geluTanh';
  const { activationFuncClampValue: clamp, gluLinearOffset: linearOffset } = model;
  return { kind, ...(clamp !== undefined && { clamp }), ...(linearOffset !== undefined && { linearOffset }) };
}

/** Returns the load-balancing losses whose coefficient is not 0. */
function listBalancingLosses({
  moeRouterLoadBalancingType: types = ['aux_loss'],
  moeAuxLossCoeff: coefficients = [],
}: Model): readonly BalancingLoss[] {
  return types.flatMap((type, index) => {
    const coefficient = coefficients[index] ?? 0;
    return type === 'none' || coefficient === 0 ? [] : [{ type, coefficient }];
  });
}
