import type { ExpertActivation } from '@mtl/kernels';
import type { FeedForwardSpecification } from '../blocks/feed-forward.js';
import type { BlockVariants, TransformerConfiguration } from '../blocks/transformer-configuration.js';

/** The function from the logits of the router to the scores of experts. */
export type RouterScoreFunction = 'softmax' | 'sigmoid' | 'sqrtsoftplus';

/**
 * The losses that keep experts from being chosen unevenly. `aux_loss`: a loss over the tokens of a
 * micro-batch, which depends on how the global batch is split. `seq_aux_loss`: over the tokens of each
 * sequence. `global_aux_loss`: over the tokens of the global batch, with the loads of the step before.
 */
export type LoadBalancingType = 'aux_loss' | 'seq_aux_loss' | 'global_aux_loss' | 'none';

/** The order in which assignments are dropped if an expert gets more of these than its capacity. */
export type TokenDropPolicy = 'probs' | 'position';

/**
 * A mixture of experts in place of feed-forward networks (Shazeer et al. 2017), by Megatron-LM's names.
 * Absent values are Megatron-LM's defaults; without `numExperts` there are no experts and all others are
 * unused.
 */
export interface ExpertVariants {
  /** E: routed experts of a layer. Absent: feed-forward networks are dense. */
  readonly numExperts?: number | undefined;
  /**
   * The layers that have experts: every Nth from the first on, or a list with 1 for each layer that has them
   * and 0 for each that is dense. Absent: 1.
   */
  readonly moeLayerFreq?: number | readonly number[] | undefined;
  /** F: the width of an expert. Absent: `ffnHiddenSize`, which is the width of dense layers. */
  readonly moeFfnHiddenSize?: number | undefined;
  /** k: experts of a token. Absent: 2. */
  readonly moeRouterTopk?: number | undefined;
  /** The function from the logits of the router to scores. Absent: softmax. */
  readonly moeRouterScoreFunction?: RouterScoreFunction | undefined;
  /**
   * True if the softmax is over all experts before k are chosen; else over the chosen ones. Other score
   * functions have no softmax, so this changes nothing for them, as in Megatron-LM.
   */
  readonly moeRouterPreSoftmax?: boolean | undefined;
  /** The number that the probabilities of the chosen experts are multiplied by. Absent: 1. */
  readonly moeRouterTopkScalingFactor?: number | undefined;
  /** Groups of experts; a token uses experts of `moeRouterGroupTopk` groups. Absent: any experts. */
  readonly moeRouterNumGroups?: number | undefined;
  readonly moeRouterGroupTopk?: number | undefined;
  /**
   * True if each expert has a bias that affects the choice; each step moves the biases towards even loads.
   */
  readonly moeRouterEnableExpertBias?: boolean | undefined;
  /** The amount by which a step moves the bias of an expert. Absent: 1e-3. */
  readonly moeRouterBiasUpdateRate?: number | undefined;
  /** The types of the balancing losses. Absent: aux_loss. */
  readonly moeRouterLoadBalancingType?: readonly LoadBalancingType[] | undefined;
  /** The coefficients of the balancing losses, one for each of the types. Absent: 0. */
  readonly moeAuxLossCoeff?: readonly number[] | undefined;
  /** The weight of the mean squared log-sum-exp of the logits (Zoph et al. 2022). Absent: none. */
  readonly moeZLossCoeff?: number | undefined;
  /** The width of all shared experts together, which every token uses. Absent: there are none. */
  readonly moeSharedExpertIntermediateSize?: number | undefined;
  /** True if the output of shared experts is multiplied by the sigmoid of a learned projection. */
  readonly moeSharedExpertGate?: boolean | undefined;
  /** The capacity of an expert, as a multiple of an even share of the tokens. Absent: nothing is dropped. */
  readonly moeExpertCapacityFactor?: number | undefined;
  /** The order in which assignments beyond the capacity are dropped. Absent: probs. */
  readonly moeTokenDropPolicy?: TokenDropPolicy | undefined;
  /** True if feed-forward networks are gated by x sigmoid(1.702 x) (gpt-oss). */
  readonly quickGeglu?: boolean | undefined;
  /** The number that is added to the values of gated networks before the gates multiply them. Absent: 0. */
  readonly gluLinearOffset?: number | undefined;
  /** The maximum of gates, and of the magnitude of values. Absent: no limit. */
  readonly activationFuncClampValue?: number | undefined;
}

/** Returns whether a layer, by its global index, has experts. */
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
  /** The maximum of gates, and of the magnitude of values. Absent: no limit. */
  readonly clamp?: number | undefined;
  /** The number that is added to the values of gated experts. Absent: 0. */
  readonly linearOffset?: number | undefined;
}

/** Returns whether the first layer of an expert has gates and values. */
export const isGated = ({ kind }: ExpertActivationSpecification): boolean =>
  kind === 'swiglu' || kind === 'clampedQuickGeglu';

/** The way in which a router chooses the experts of a token. */
interface RouterSpecification {
  readonly scoreFunction: RouterScoreFunction;
  readonly preSoftmax: boolean;
  readonly scalingFactor: number;
  readonly bias: boolean;
  /**
   * The number of expert groups, and the number of groups whose experts a token uses. Absent: any experts.
   */
  readonly groups?: { readonly number: number; readonly topK: number } | undefined;
  /** A bias of each expert that affects the choice, and the amount by which a step moves it. Absent: none. */
  readonly expertBias?: { readonly updateRate: number } | undefined;
}

/** A loss that keeps experts from being chosen unevenly, with its weight. */
export interface BalancingLoss {
  readonly type: Exclude<LoadBalancingType, 'none'>;
  readonly coefficient: number;
}

/** The fields of the kind `mixture-of-experts`; `ffnHiddenSize` is F, the width of an expert. */
export interface ExpertsSpecification extends FeedForwardSpecification {
  readonly kind: 'mixture-of-experts';
  /** E: the routed experts of a layer. */
  readonly numExperts: number;
  /** k: the experts of a token. */
  readonly topK: number;
  readonly activation: ExpertActivationSpecification;
  readonly router: RouterSpecification;
  readonly balancingLosses: readonly BalancingLoss[];
  /** The weight of the mean squared log-sum-exp of the logits. Absent: no such loss. */
  readonly zLossCoefficient?: number | undefined;
  /** Experts that every token uses, of this width together. Absent: there are none. */
  readonly shared?: { readonly ffnHiddenSize: number; readonly gate: boolean } | undefined;
  /** The capacity of the experts. Absent: nothing is dropped. */
  readonly capacity?: { readonly factor: number; readonly policy: TokenDropPolicy } | undefined;
}

type Model = TransformerConfiguration & BlockVariants & ExpertVariants;

/** Returns the mixture of experts of a model that has one, with Megatron-LM's defaults. */
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

/** Returns the balancing losses that have a coefficient. */
function listBalancingLosses({
  moeRouterLoadBalancingType: types = ['aux_loss'],
  moeAuxLossCoeff: coefficients = [],
}: Model): readonly BalancingLoss[] {
  return types.flatMap((type, index) => {
    const coefficient = coefficients[index] ?? 0;
    return type === 'none' || coefficient === 0 ? [] : [{ type, coefficient }];
  });
}
