import {
  anyNumber,
  choice,
  choices,
  count,
  nonNegativeNumber,
  numberList,
  openToggle,
  positiveNumber,
} from '../flags/flag-kinds.js';
import { type ArchitectureField, type KnownValues, neverUnused, presentIfOn } from './architecture-field.js';
import { layerList, layerListConversion } from './layer-lists.js';

/** Converts 0 to undefined: in Megatron-LM, 0 means that a model lacks the property. */
const unlessZero = (value: unknown): unknown => (value === 0 ? undefined : value);
const unlessNegative = (value: unknown): unknown =>
  typeof value === 'number' && value < 0 ? undefined : value;

const hasNoExperts = ({ numExperts }: KnownValues): boolean => numExperts === undefined;

/**
 * Makes the description of an expert field. Models omit the field if they have no experts or no value for the
 * field.
 *
 * @param isUnused returns true if the field has no effect in a model with experts. Default: always false
 */
const ofExperts = (
  otherwise?: (known: KnownValues) => unknown,
  isUnused: (known: KnownValues) => boolean = () => false,
) => {
  const isAbsent = (known: KnownValues): boolean => hasNoExperts(known) || isUnused(known);
  return {
    kind: 'gpt',
    isUnused: isAbsent,
    otherwise: (known: KnownValues) => (isAbsent(known) ? undefined : otherwise?.(known)),
  } as const;
};

/**
 * The architecture fields of experts, with Megatron-LM's names and defaults. No flag has a default in its
 * schema, so that configurations of models without experts have none of these keys.
 */
export const expertFields = {
  'num-experts': {
    flag: count('Experts of a layer, in place of one feed-forward network; each token uses a few. 0: none.', {
      expected: 'a whole number of 1 or more, or 0 for none',
      canonical: unlessZero,
    }),
    kind: 'gpt',
    isUnused: neverUnused,
    key: 'numExperts',
    decides: 'weights',
    isSize: true,
  },
  'moe-layer-freq': {
    flag: layerList(
      'Which layers have experts: every Nth from the first on, or a list with 1 for each that has them and 0 for each that is dense, such as "([0]*3+[1]*58)".',
      { defaultText: '1' },
    ),
    ...ofExperts(() => '1'),
    key: 'moeLayerFreq',
    decides: 'weights',
    conversion: layerListConversion,
  },
  'moe-ffn-hidden-size': {
    flag: count('Width of an expert.', {
      defaultText: '--ffn-hidden-size, which is the width of dense layers',
    }),
    ...ofExperts(({ ffnHiddenSize }) => ffnHiddenSize),
    key: 'moeFfnHiddenSize',
    decides: 'weights',
    isSize: true,
  },
  'moe-router-topk': {
    flag: count('Experts that a token uses.', { defaultText: '2' }),
    ...ofExperts(() => 2),
    key: 'moeRouterTopk',
    decides: 'weights',
  },
  'moe-router-score-function': {
    flag: choice(
      ['softmax', 'sigmoid', 'sqrtsoftplus'],
      'How the scores of experts follow from what the router computes for a token.',
      { defaultText: 'softmax' },
    ),
    ...ofExperts(() => 'softmax'),
    key: 'moeRouterScoreFunction',
    decides: 'weights',
  },
  'moe-router-pre-softmax': {
    flag: openToggle(
      'Takes the softmax over all experts and then chooses, instead of over the chosen ones: the weights of a token then have a sum below 1.',
    ),
    ...ofExperts(() => false),
    key: 'moeRouterPreSoftmax',
    decides: 'weights',
  },
  'moe-router-topk-scaling-factor': {
    flag: positiveNumber('What the weights of the chosen experts are multiplied by.', {
      canonical: unlessZero,
    }),
    ...ofExperts(),
    key: 'moeRouterTopkScalingFactor',
    decides: 'weights',
  },
  'moe-router-num-groups': {
    flag: count('Groups of experts; a token uses --moe-router-group-topk groups.'),
    ...ofExperts(),
    key: 'moeRouterNumGroups',
    decides: 'weights',
  },
  'moe-router-group-topk': {
    flag: count('Groups of --moe-router-num-groups that a token chooses its experts from.'),
    ...ofExperts(),
    key: 'moeRouterGroupTopk',
    decides: 'weights',
  },
  'moe-router-enable-expert-bias': {
    flag: openToggle(
      'Gives each expert a bias that takes part in the choice and moves after each step, up where fewer tokens than the mean chose it and else down: even loads without a loss. With sigmoid or sqrtsoftplus scores.',
    ),
    ...ofExperts(() => false),
    key: 'moeRouterEnableExpertBias',
    decides: 'weights',
  },
  'moe-router-bias-update-rate': {
    flag: nonNegativeNumber('How far a step moves the biases of --moe-router-enable-expert-bias.', {
      defaultText: '0.001',
    }),
    ...ofExperts(
      () => 1e-3,
      ({ moeRouterEnableExpertBias }) => moeRouterEnableExpertBias !== true,
    ),
    key: 'moeRouterBiasUpdateRate',
    decides: 'learning',
  },
  'moe-router-load-balancing-type': {
    flag: choices(
      ['aux_loss', 'seq_aux_loss', 'global_aux_loss', 'none'],
      'Losses that keep experts from being chosen unevenly: over the tokens of a micro-batch, of each sequence, or of the global batch.',
      { defaultText: 'aux_loss' },
    ),
    ...ofExperts(() => ['aux_loss']),
    key: 'moeRouterLoadBalancingType',
    decides: 'learning',
  },
  'moe-aux-loss-coeff': {
    flag: numberList('What each loss of --moe-router-load-balancing-type is multiplied by.', {
      defaultText: '0',
    }),
    ...ofExperts(() => [0]),
    key: 'moeAuxLossCoeff',
    decides: 'learning',
  },
  'moe-z-loss-coeff': {
    flag: nonNegativeNumber(
      'The weight of a loss that keeps what the router computes small (Zoph et al. 2022); 0.001 is usual.',
      { canonical: unlessZero },
    ),
    ...ofExperts(),
    key: 'moeZLossCoeff',
    decides: 'learning',
  },
  'moe-shared-expert-intermediate-size': {
    flag: count('Width of all shared experts together, which every token uses. With --disable-bias-linear.'),
    ...ofExperts(),
    key: 'moeSharedExpertIntermediateSize',
    decides: 'weights',
    isSize: true,
  },
  'moe-shared-expert-gate': {
    flag: openToggle('Multiplies the output of shared experts by the sigmoid of a learned projection.'),
    ...ofExperts(() => false),
    key: 'moeSharedExpertGate',
    decides: 'weights',
  },
  'moe-expert-capacity-factor': {
    flag: positiveNumber(
      'Drops the tokens of an expert beyond this many times an even share; below 0, and by default, none is dropped.',
      { expected: 'a number above 0, or one below 0 for no capacity', canonical: unlessNegative },
    ),
    ...ofExperts(),
    key: 'moeExpertCapacityFactor',
    decides: 'learning',
  },
  'moe-token-drop-policy': {
    flag: choice(
      ['probs', 'position'],
      'Which tokens --moe-expert-capacity-factor drops: tokens with the lowest weights, or the last ones.',
      { defaultText: 'probs' },
    ),
    ...ofExperts(
      () => 'probs',
      ({ moeExpertCapacityFactor }) => moeExpertCapacityFactor === undefined,
    ),
    key: 'moeTokenDropPolicy',
    decides: 'learning',
  },
} as const satisfies Readonly<Record<string, ArchitectureField>>;

/** Variants of gated MLPs, which models with experts use. */
export const gateFields = {
  'quick-geglu': {
    flag: openToggle('Gated feed-forward layers with x sigmoid(1.702 x) instead of GELU.'),
    kind: 'gpt',
    key: 'quickGeglu',
    decides: 'weights',
    isUnused: neverUnused,
    conversion: presentIfOn,
  },
  'glu-linear-offset': {
    flag: anyNumber(
      'What is added to the values of gated feed-forward layers before the gates multiply them.',
      {
        defaultText: '0',
        canonical: unlessZero,
      },
    ),
    kind: 'gpt',
    isUnused: neverUnused,
    key: 'gluLinearOffset',
    decides: 'weights',
  },
  'activation-func-clamp-value': {
    flag: positiveNumber(
      'Limits gated feed-forward layers: gates to at most this, values to between this and its negative.',
    ),
    kind: 'gpt',
    isUnused: neverUnused,
    key: 'activationFuncClampValue',
    decides: 'weights',
  },
} as const satisfies Readonly<Record<string, ArchitectureField>>;
