import type { BlockVariants } from '../blocks/block-variants.js';
import type { TransformerConfiguration } from '../blocks/transformer-configuration.js';
import type { ExpertVariants } from './expert-variants.js';
import type {
  BalancingLoss,
  ExpertActivationSpecification,
  ExpertsSpecification,
} from './experts-specification.js';

type Model = TransformerConfiguration & BlockVariants & ExpertVariants;

/** The mixture of experts of a model that has one, with Megatron-LM's defaults. */
export function expertsSpecificationOf(model: Model): ExpertsSpecification {
  const { numExperts = 1, moeRouterTopk: topK = 2, addBiasLinear: bias = true } = model;
  const { moeRouterNumGroups, moeRouterGroupTopk, moeExpertCapacityFactor: factor } = model;
  const { moeRouterEnableExpertBias = false, moeRouterBiasUpdateRate: updateRate = 1e-3 } = model;
  const { moeSharedExpertIntermediateSize: sharedWidth, moeSharedExpertGate: gate = false } = model;
  const { moeTokenDropPolicy: policy = 'probs' } = model;
  return {
    kind: 'mixture-of-experts',
    ffnHiddenSize: model.moeFfnHiddenSize ?? model.ffnHiddenSize,
    bias,
    numExperts,
    topK,
    activation: activationOf(model),
    router: {
      scoreFunction: model.moeRouterScoreFunction ?? 'softmax',
      preSoftmax: model.moeRouterPreSoftmax ?? false,
      scalingFactor: model.moeRouterTopkScalingFactor ?? 1,
      bias,
      ...(moeRouterNumGroups !== undefined && {
        groups: { number: moeRouterNumGroups, topK: moeRouterGroupTopk ?? moeRouterNumGroups },
      }),
      ...(moeRouterEnableExpertBias && { expertBias: { updateRate } }),
    },
    balancingLosses: balancingLossesOf(model),
    zLossCoefficient: model.moeZLossCoeff,
    ...(sharedWidth !== undefined && { shared: { ffnHiddenSize: sharedWidth, gate } }),
    ...(factor !== undefined && { capacity: { factor, policy } }),
  };
}

function activationOf(model: Model): ExpertActivationSpecification {
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

/** The balancing losses that count: those with a coefficient. */
function balancingLossesOf({
  moeRouterLoadBalancingType: types = ['aux_loss'],
  moeAuxLossCoeff: coefficients = [],
}: Model): readonly BalancingLoss[] {
  return types.flatMap((type, index) => {
    const coefficient = coefficients[index] ?? 0;
    return type === 'none' || coefficient === 0 ? [] : [{ type, coefficient }];
  });
}
