/** How the scores of experts follow from the logits of the router. */
export type RouterScoreFunction = 'softmax' | 'sigmoid' | 'sqrtsoftplus';

/**
 * What keeps experts from being chosen unevenly. `aux_loss`: a loss over the tokens of a micro-batch, which
 * depends on how the global batch is split. `seq_aux_loss`: over the tokens of each sequence.
 * `global_aux_loss`: over the tokens of the global batch, with the loads of the step before.
 */
export type LoadBalancingType = 'aux_loss' | 'seq_aux_loss' | 'global_aux_loss' | 'none';

/** Which assignments are dropped where an expert gets more than its capacity. */
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
   * Which layers have experts: every Nth from the first on, or a list with 1 for each layer that has them and
   * 0 for each that is dense. Absent: 1.
   */
  readonly moeLayerFreq?: number | readonly number[] | undefined;
  /** F: the width of an expert. Absent: `ffnHiddenSize`, which is the width of dense layers. */
  readonly moeFfnHiddenSize?: number | undefined;
  /** k: experts of a token. Absent: 2. */
  readonly moeRouterTopk?: number | undefined;
  /** Absent: softmax. */
  readonly moeRouterScoreFunction?: RouterScoreFunction | undefined;
  /** Whether the softmax is over all experts before k are chosen; else over the chosen ones. */
  readonly moeRouterPreSoftmax?: boolean | undefined;
  /** What the probabilities of the chosen experts are multiplied by. Absent: 1. */
  readonly moeRouterTopkScalingFactor?: number | undefined;
  /** Groups of experts of which a token uses `moeRouterGroupTopk`. Absent: any experts. */
  readonly moeRouterNumGroups?: number | undefined;
  readonly moeRouterGroupTopk?: number | undefined;
  /** Whether a bias of each expert, moved towards even loads after each step, takes part in the choice. */
  readonly moeRouterEnableExpertBias?: boolean | undefined;
  /** How much a step moves that bias. Absent: 1e-3. */
  readonly moeRouterBiasUpdateRate?: number | undefined;
  /** Absent: aux_loss. */
  readonly moeRouterLoadBalancingType?: readonly LoadBalancingType[] | undefined;
  /** One for each of the types. Absent: 0. */
  readonly moeAuxLossCoeff?: readonly number[] | undefined;
  /** The weight of the mean squared log-sum-exp of the logits (Zoph et al. 2022). Absent: none. */
  readonly moeZLossCoeff?: number | undefined;
  /** The width of all shared experts together, which every token uses. Absent: there are none. */
  readonly moeSharedExpertIntermediateSize?: number | undefined;
  /** Whether the output of shared experts is multiplied by the sigmoid of a learned projection. */
  readonly moeSharedExpertGate?: boolean | undefined;
  /** The capacity of an expert over an even share of the tokens. Absent: nothing is dropped. */
  readonly moeExpertCapacityFactor?: number | undefined;
  /** Absent: probs. */
  readonly moeTokenDropPolicy?: TokenDropPolicy | undefined;
  /** Whether feed-forward networks are gated by x sigmoid(1.702 x) (gpt-oss). */
  readonly quickGeglu?: boolean | undefined;
  /** What is added to the values of gated networks before the gates multiply them. Absent: 0. */
  readonly gluLinearOffset?: number | undefined;
  /** Gates are at most this, values between it and its negative. Absent: any. */
  readonly activationFuncClampValue?: number | undefined;
}

/** Whether a layer, by its global index, has experts. */
export function hasExperts(
  { numExperts, moeLayerFreq = 1 }: Pick<ExpertVariants, 'numExperts' | 'moeLayerFreq'>,
  layer: number,
): boolean {
  if (numExperts === undefined) return false;
  return typeof moeLayerFreq === 'number' ? layer % moeLayerFreq === 0 : moeLayerFreq[layer] === 1;
}
