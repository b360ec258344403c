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
import { onlyWith, optional, presentIfOn } from './architecture-field.js';
import { layerList, layerListConversion } from './layer-lists.js';

/** Converts 0 to undefined: in Megatron-LM, 0 means that a model lacks the property. */
const unlessZero = (value: unknown): unknown => (value === 0 ? undefined : value);
const unlessNegative = (value: unknown): unknown =>
  typeof value === 'number' && value < 0 ? undefined : value;

/** Makes a field of experts. Models omit the field if they have no experts or no value for the field. */
const ofExperts = onlyWith(({ numExperts }) => numExperts !== undefined);

/**
 * The architecture fields of experts, with Megatron-LM's names and defaults. No flag has a default in its
 * schema, so that configurations of models without experts have none of these keys.
 */
export const expertFields = {
  'num-experts': optional(
    count('Experts of a layer, in place of one feed-forward network; each token uses a few. 0: none.', {
      expected: 'a whole number of 1 or more, or 0 for none',
      canonical: unlessZero,
    }),
    { isSize: true },
  ),
  'moe-layer-freq': ofExperts(
    layerList(
      'Which layers have experts: every Nth from the first on, or a list with 1 for each that has them and 0 for each that is dense, such as "([0]*3+[1]*58)".',
      { defaultText: '1' },
    ),
    { otherwise: () => '1', conversion: layerListConversion },
  ),
  'moe-ffn-hidden-size': ofExperts(
    count('Width of an expert.', { defaultText: '--ffn-hidden-size, which is the width of dense layers' }),
    { otherwise: ({ ffnHiddenSize }) => ffnHiddenSize, isSize: true },
  ),
  'moe-router-topk': ofExperts(count('Experts that a token uses.', { defaultText: '2' }), {
    otherwise: () => 2,
  }),
  'moe-router-score-function': ofExperts(
    choice(
      ['softmax', 'sigmoid', 'sqrtsoftplus'],
      'How the scores of experts follow from what the router computes for a token.',
      { defaultText: 'softmax' },
    ),
    { otherwise: () => 'softmax' },
  ),
  'moe-router-pre-softmax': ofExperts(
    openToggle(
      'Takes the softmax over all experts and then chooses, instead of over the chosen ones: the weights of a token then have a sum below 1.',
    ),
    { otherwise: () => false },
  ),
  'moe-router-topk-scaling-factor': ofExperts(
    positiveNumber('What the weights of the chosen experts are multiplied by.', { canonical: unlessZero }),
  ),
  'moe-router-num-groups': ofExperts(
    count('Groups of experts; a token uses --moe-router-group-topk groups.'),
  ),
  'moe-router-group-topk': ofExperts(
    count('Groups of --moe-router-num-groups that a token chooses its experts from.'),
  ),
  'moe-router-enable-expert-bias': ofExperts(
    openToggle(
      'Gives each expert a bias that takes part in the choice and moves after each step, up where fewer tokens than the mean chose it and else down: even loads without a loss. With sigmoid or sqrtsoftplus scores.',
    ),
    { otherwise: () => false },
  ),
  'moe-router-bias-update-rate': ofExperts(
    nonNegativeNumber('How far a step moves the biases of --moe-router-enable-expert-bias.', {
      defaultText: '0.001',
    }),
    {
      otherwise: () => 1e-3,
      isUnused: ({ moeRouterEnableExpertBias }) => moeRouterEnableExpertBias !== true,
      decides: 'learning',
    },
  ),
  'moe-router-load-balancing-type': ofExperts(
    choices(
      ['aux_loss', 'seq_aux_loss', 'global_aux_loss', 'none'],
      'Losses that keep experts from being chosen unevenly: over the tokens of a micro-batch, of each sequence, or of the global batch.',
      { defaultText: 'aux_loss' },
    ),
    { otherwise: () => ['aux_loss'], decides: 'learning' },
  ),
  'moe-aux-loss-coeff': ofExperts(
    numberList('What each loss of --moe-router-load-balancing-type is multiplied by.', { defaultText: '0' }),
    { otherwise: () => [0], decides: 'learning' },
  ),
  'moe-z-loss-coeff': ofExperts(
    nonNegativeNumber(
      'The weight of a loss that keeps what the router computes small (Zoph et al. 2022); 0.001 is usual.',
      { canonical: unlessZero },
    ),
    { decides: 'learning' },
  ),
  'moe-shared-expert-intermediate-size': ofExperts(
    count('Width of all shared experts together, which every token uses. With --disable-bias-linear.'),
    { isSize: true },
  ),
  'moe-shared-expert-gate': ofExperts(
    openToggle('Multiplies the output of shared experts by the sigmoid of a learned projection.'),
    { otherwise: () => false },
  ),
  'moe-expert-capacity-factor': ofExperts(
    positiveNumber(
      'Drops the tokens of an expert beyond this many times an even share; below 0, and by default, none is dropped.',
      { expected: 'a number above 0, or one below 0 for no capacity', canonical: unlessNegative },
    ),
    { decides: 'learning' },
  ),
  'moe-token-drop-policy': ofExperts(
    choice(
      ['probs', 'position'],
      'Which tokens --moe-expert-capacity-factor drops: tokens with the lowest weights, or the last ones.',
      { defaultText: 'probs' },
    ),
    {
      otherwise: () => 'probs',
      isUnused: ({ moeExpertCapacityFactor }) => moeExpertCapacityFactor === undefined,
      decides: 'learning',
    },
  ),
};

/** The reason why flags of different activations exclude each other. */
export const oneActivation = 'a feed-forward layer has one activation';

/** Variants of gated MLPs, which models with experts use. */
export const gateFields = {
  'quick-geglu': optional(
    openToggle('Gated feed-forward layers with x sigmoid(1.702 x) instead of GELU.', {
      excludes: { swiglu: oneActivation, 'squared-relu': oneActivation },
    }),
    { conversion: presentIfOn },
  ),
  'glu-linear-offset': optional(
    anyNumber('What is added to the values of gated feed-forward layers before the gates multiply them.', {
      defaultText: '0',
      canonical: unlessZero,
    }),
  ),
  'activation-func-clamp-value': optional(
    positiveNumber(
      'Limits gated feed-forward layers: gates to at most this, values to between this and its negative.',
    ),
  ),
};
