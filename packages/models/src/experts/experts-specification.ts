import type { ExpertActivation } from '@mtl/kernels';
import type { FeedForwardSpecification } from '../blocks/feed-forward.js';
import type { BlockVariants, TransformerConfiguration } from '../blocks/transformer-configuration.js';

/** The name of a function that turns the router's logits into the experts' scores. */
export type RouterScoreFunction = 'softmax' | 'sigmoid' | 'sqrtsoftplus';

/**
 * The losses that encourage even loads of the experts:
 * - `aux_loss`: computed over the tokens in each micro-batch, so it depends on how the global batch is split
 * - `seq_aux_loss`: computed over the tokens in each sequence
 * - `global_aux_loss`: computed over the tokens in the global batch, with the loads of the previous step
 */
export type LoadBalancingType = 'aux_loss' | 'seq_aux_loss' | 'global_aux_loss' | 'none';

/**
 * The order in which assignments are dropped if an expert exceeds its capacity: by probability or by
 * position.
 */
export type TokenDropPolicy = 'probs' | 'position';

/**
 * The options for a mixture of experts in place of feed-forward networks (see Shazeer et al. 2017). Names and
 * defaults are the same as in Megatron-LM. If `numExperts` is undefined, the model has no experts and does
 * not use the other properties.
 */
export interface ExpertVariants {
  /** E: how many routed experts a layer has. If it is undefined, feed-forward networks are dense. */
  readonly numExperts?: number | undefined;
  /**
   * The layers with experts: every Nth layer beginning with the first, or a list with 1 for each layer with
   * experts and 0 for each dense layer. The default is 1.
   */
  readonly moeLayerFreq?: number | readonly number[] | undefined;
  /** F: the feed-forward width of an expert. The default is `ffnHiddenSize`, the width of dense layers. */
  readonly moeFfnHiddenSize?: number | undefined;
  /** k: how many routed experts each token uses. The default is 2. */
  readonly moeRouterTopk?: number | undefined;
  /** The function that turns the router's logits into scores. The default is `softmax`. */
  readonly moeRouterScoreFunction?: RouterScoreFunction | undefined;
  /**
   * True if the softmax is computed over all experts, before k experts are chosen. False, the default, if it
   * is computed over the chosen experts only. The other score functions ignore this property, as in
   * Megatron-LM.
   */
  readonly moeRouterPreSoftmax?: boolean | undefined;
  /** A factor for the chosen experts' probabilities. The default is 1. */
  readonly moeRouterTopkScalingFactor?: number | undefined;
  /**
   * How many groups the experts form. A token may use experts from only `moeRouterGroupTopk` groups. By
   * default, a token may use any experts.
   */
  readonly moeRouterNumGroups?: number | undefined;
  readonly moeRouterGroupTopk?: number | undefined;
  /**
   * True if each expert has a bias, which is added to its score when experts are selected. Each step moves
   * the biases towards even loads.
   */
  readonly moeRouterEnableExpertBias?: boolean | undefined;
  /** How far a step moves an expert's bias. The default is 1e-3. */
  readonly moeRouterBiasUpdateRate?: number | undefined;
  /** The types of load-balancing losses. The default is `aux_loss`. */
  readonly moeRouterLoadBalancingType?: readonly LoadBalancingType[] | undefined;
  /** The coefficients of the load-balancing losses, in the order of the types. The default is 0. */
  readonly moeAuxLossCoeff?: readonly number[] | undefined;
  /**
   * The coefficient of the z-loss: the mean squared log-sum-exp of the router's logits (see Zoph et al.
   * 2022). Undefined means no z-loss.
   */
  readonly moeZLossCoeff?: number | undefined;
  /**
   * The total feed-forward width of the shared experts, which every token uses. Undefined means no shared
   * experts.
   */
  readonly moeSharedExpertIntermediateSize?: number | undefined;
  /** True if the shared experts' output is multiplied by a gate: the sigmoid of a learned projection. */
  readonly moeSharedExpertGate?: boolean | undefined;
  /**
   * The capacity of an expert, as a multiple of its even share of the assignments. If it is undefined, no
   * assignment is dropped.
   */
  readonly moeExpertCapacityFactor?: number | undefined;
  /** The order in which assignments beyond the capacity are dropped. The default is `probs`. */
  readonly moeTokenDropPolicy?: TokenDropPolicy | undefined;
  /** True if feed-forward networks are gated by `x * sigmoid(1.702 * x)`, as in gpt-oss. */
  readonly quickGeglu?: boolean | undefined;
  /**
   * An offset, added to the values in gated networks before they are multiplied by the gates. The default is
   * 0.
   */
  readonly gluLinearOffset?: number | undefined;
  /** The upper limit for gates and for the magnitudes of values. Undefined means no limit. */
  readonly activationFuncClampValue?: number | undefined;
}

/** Returns true if the layer with global index `layer` has experts. */
export function hasExperts(
  { numExperts, moeLayerFreq = 1 }: Pick<ExpertVariants, 'numExperts' | 'moeLayerFreq'>,
  layer: number,
): boolean {
  if (numExperts === undefined) return false;
  return typeof moeLayerFreq === 'number' ? layer % moeLayerFreq === 0 : moeLayerFreq[layer] === 1;
}

/** The activation between an expert's two layers. */
export interface ExpertActivationSpecification {
  readonly kind: ExpertActivation;
  /** The upper limit for gates and for the magnitudes of values. Undefined means no limit. */
  readonly clamp?: number | undefined;
  /** An offset, added to the values in gated experts. The default is 0. */
  readonly linearOffset?: number | undefined;
}

/** Returns true if the first layer of an expert computes gates and values. */
export const isGated = ({ kind }: ExpertActivationSpecification): boolean =>
  kind === 'swiglu' || kind === 'clampedQuickGeglu';

/** How a router chooses the experts for a token. */
interface RouterSpecification {
  readonly scoreFunction: RouterScoreFunction;
  readonly preSoftmax: boolean;
  readonly scalingFactor: number;
  readonly bias: boolean;
  /**
   * How many groups the experts form, and from how many groups a token may use experts. If it is undefined, a
   * token may use any experts.
   */
  readonly groups?: { readonly number: number; readonly topK: number } | undefined;
  /**
   * Gives each expert a bias, which is added to its score when experts are selected. Each step moves a bias
   * by `updateRate`. Undefined means no biases.
   */
  readonly expertBias?: { readonly updateRate: number } | undefined;
}

/** A loss that encourages even loads of the experts. The total loss includes it with its coefficient. */
export interface BalancingLoss {
  readonly type: Exclude<LoadBalancingType, 'none'>;
  readonly coefficient: number;
}

/**
 * The fields of the specification kind `mixture-of-experts`. Its `ffnHiddenSize` is F, the width of an
 * expert.
 */
export interface ExpertsSpecification extends FeedForwardSpecification {
  readonly kind: 'mixture-of-experts';
  /** E: how many routed experts a layer has. */
  readonly numExperts: number;
  /** k: how many routed experts each token uses. */
  readonly topK: number;
  readonly activation: ExpertActivationSpecification;
  readonly router: RouterSpecification;
  readonly balancingLosses: readonly BalancingLoss[];
  /**
   * The coefficient of the z-loss: the mean squared log-sum-exp of the router's logits. Undefined means no
   * z-loss.
   */
  readonly zLossCoefficient?: number | undefined;
  /**
   * The shared experts, which every token uses: their total width, and true if they have a gate. Undefined
   * means no shared experts.
   */
  readonly shared?: { readonly ffnHiddenSize: number; readonly gate: boolean } | undefined;
  /** The capacity of the experts. If it is undefined, no assignment is dropped. */
  readonly capacity?: { readonly factor: number; readonly policy: TokenDropPolicy } | undefined;
}

type Model = TransformerConfiguration & BlockVariants & ExpertVariants;

/**
 * Returns the specification of a model's mixture of experts. Undefined properties have Megatron-LM's
 * defaults.
 */
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
