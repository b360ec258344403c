import {
  choice,
  count,
  fraction,
  nonNegativeNumber,
  openToggle,
  positiveNumber,
  share,
  text,
  toggle,
} from '../flags/flag-kinds.js';
import {
  type ArchitectureField,
  type KnownValues,
  negated,
  neverUnused,
  presentIfOn,
} from './architecture-field.js';
import { attentionFields, rotationFields } from './attention-fields.js';
import { expertFields, gateFields } from './expert-fields.js';

/**
 * Returns a function that replaces `usual`, the value of Llama 3.1, by undefined, because models omit this
 * value.
 */
const unless = (usual: number) => (value: unknown) => (value === usual ? undefined : value);

const isNotYarn = ({ positionEmbeddingType }: KnownValues): boolean => positionEmbeddingType !== 'yarn';
const isNotLlama3 = ({ positionEmbeddingType, useRopeScaling }: KnownValues): boolean =>
  positionEmbeddingType !== 'rope' || useRopeScaling !== true;

/** Makes the description of a field that only models with certain position embeddings have. */
const ofPositions = (isUnused: (known: KnownValues) => boolean, usual?: number | boolean) =>
  ({
    kind: 'gpt',
    isUnused,
    otherwise: (known: KnownValues) => (isUnused(known) ? undefined : usual),
  }) as const;

const hasNoWeights = (known: KnownValues): boolean =>
  isNotYarn(known) || known.yarnAttentionFactor !== undefined;

/**
 * The architecture fields that extend rotary position embeddings to sequences longer than in pretraining: the
 * scaling of Llama 3.1 with the names of the transformers library, and YaRN with Megatron-LM's names and
 * defaults. No flag has a default in its schema, so that configurations of other models have none of these
 * keys.
 */
export const rotaryScalingFields = {
  'rope-scaling-original-max-position-embeddings': {
    flag: count('Positions of pretraining, of --use-rope-scaling.', {
      defaultText: '8192',
      canonical: unless(8192),
    }),
    ...ofPositions(isNotLlama3),
    key: 'ropeScalingOriginalMaxPositionEmbeddings',
    decides: 'weights',
  },
  'rope-scaling-low-freq-factor': {
    flag: positiveNumber(
      'Wavelengths longer than the positions of pretraining divided by this are multiplied by --use-rope-scaling.',
      { defaultText: '1', canonical: unless(1) },
    ),
    ...ofPositions(isNotLlama3),
    key: 'ropeScalingLowFreqFactor',
    decides: 'weights',
  },
  'rope-scaling-high-freq-factor': {
    flag: positiveNumber(
      'Wavelengths shorter than the positions of pretraining divided by this are kept by --use-rope-scaling.',
      { defaultText: '4', canonical: unless(4) },
    ),
    ...ofPositions(isNotLlama3),
    key: 'ropeScalingHighFreqFactor',
    decides: 'weights',
  },
  'rotary-scaling-factor': {
    flag: positiveNumber(
      'Factor of yarn: the number of positions, divided by the positions of pretraining.',
      {
        defaultText: '1',
      },
    ),
    ...ofPositions(isNotYarn, 1),
    key: 'rotaryScalingFactor',
    decides: 'weights',
  },
  'yarn-original-max-position-embeddings': {
    flag: count('Positions of pretraining, of yarn.', { defaultText: '4096' }),
    ...ofPositions(isNotYarn, 4096),
    key: 'yarnOriginalMaxPositionEmbeddings',
    decides: 'weights',
  },
  'yarn-beta-fast': {
    flag: positiveNumber(
      'Yarn keeps frequencies that turn at least so often within the positions of pretraining.',
      {
        defaultText: '32',
      },
    ),
    ...ofPositions(isNotYarn, 32),
    key: 'yarnBetaFast',
    decides: 'weights',
  },
  'yarn-beta-slow': {
    flag: positiveNumber(
      'Yarn divides frequencies that turn at most so often within the positions of pretraining.',
      {
        defaultText: '1',
      },
    ),
    ...ofPositions(isNotYarn, 1),
    key: 'yarnBetaSlow',
    decides: 'weights',
  },
  'yarn-correction-range-round-to-int': {
    flag: openToggle(
      'Lets the range of frequencies that yarn mixes begin and end at whole indices. On unless switched off.',
    ),
    ...ofPositions(isNotYarn, true),
    key: 'yarnCorrectionRangeRoundToInt',
    decides: 'weights',
  },
  mscale: {
    flag: nonNegativeNumber(
      'Weight of ln(--rotary-scaling-factor) / 10 in what yarn multiplies queries and keys by.',
      {
        defaultText: '1',
      },
    ),
    ...ofPositions(hasNoWeights, 1),
    key: 'mscale',
    decides: 'weights',
  },
  'mscale-all-dim': {
    flag: nonNegativeNumber('The same weight in what yarn divides them by.', { defaultText: '0' }),
    ...ofPositions(hasNoWeights, 0),
    key: 'mscaleAllDim',
    decides: 'weights',
  },
  'yarn-attention-factor': {
    flag: positiveNumber(
      'What yarn multiplies queries and keys by, in place of what follows from --mscale and --mscale-all-dim.',
    ),
    ...ofPositions(isNotYarn),
    key: 'yarnAttentionFactor',
    decides: 'weights',
  },
} as const satisfies Readonly<Record<string, ArchitectureField>>;

/**
 * The architecture fields by flag, in the order of help. This table is the only source for: the flags with
 * help and range checks, the architecture in a run's configuration, the fields that checkpoints save, the
 * fields that a resumed run compares, and the fields that a Hugging Face directory determines.
 */
export const architectureFields = {
  'num-layers': {
    flag: count('Transformer layers.'),
    key: 'numLayers',
    decides: 'weights',
    isRequired: true,
    isSize: true,
  },
  'hidden-size': {
    flag: count('Width of the residual stream.'),
    key: 'hiddenSize',
    decides: 'weights',
    isRequired: true,
    isSize: true,
  },
  'ffn-hidden-size': {
    flag: count('Width of the feed-forward layer.', {
      defaultText: '4 x --hidden-size; with --swiglu 8/3 x, down to a multiple of 64, at least 64',
    }),
    key: 'ffnHiddenSize',
    decides: 'weights',
    isSize: true,
    otherwise: ({ hiddenSize, swiglu }) =>
      hiddenSize && (swiglu ? 64 * Math.max(1, Math.floor((4 * hiddenSize * 2) / 3 / 64)) : 4 * hiddenSize),
  },
  'num-attention-heads': {
    flag: count('Attention heads; must divide --hidden-size.'),
    key: 'numAttentionHeads',
    decides: 'weights',
    isRequired: true,
    isSize: true,
  },
  'kv-channels': {
    flag: count('Features of an attention head.', { defaultText: '--hidden-size / --num-attention-heads' }),
    kind: 'gpt',
    key: 'kvChannels',
    decides: 'weights',
    isSize: true,
    otherwise: ({ hiddenSize, numAttentionHeads }) =>
      hiddenSize && numAttentionHeads && hiddenSize / numAttentionHeads,
  },
  'group-query-attention': {
    flag: toggle('Lets the attention heads of a group share keys and values (--num-query-groups).'),
    kind: 'gpt',
    key: 'groupQueryAttention',
    decides: 'weights',
  },
  'num-query-groups': {
    flag: count('Groups of attention heads, with --group-query-attention.', {
      defaultText: '1 with --group-query-attention, else --num-attention-heads',
    }),
    kind: 'gpt',
    key: 'numQueryGroups',
    decides: 'weights',
    isSize: true,
    otherwise: ({ groupQueryAttention, numAttentionHeads }) => (groupQueryAttention ? 1 : numAttentionHeads),
  },
  ...attentionFields,
  'position-embedding-type': {
    flag: choice(
      ['learned_absolute', 'rope', 'yarn', 'none'],
      'How a model knows the positions of tokens: by embeddings, by rotated queries and keys, or, of a GPT, by those with the frequencies of YaRN for longer sequences, or by its causal mask only.',
      { default: 'learned_absolute' },
    ),
    key: 'positionEmbeddingType',
    decides: 'weights',
  },
  'rotary-base': {
    flag: positiveNumber('Base of the frequencies of rope and yarn.', { default: 10_000 }),
    key: 'rotaryBase',
    decides: 'weights',
  },
  'rotary-percent': {
    flag: share('Share of the features of a head that rope rotates.', { default: 1 }),
    key: 'rotaryPercent',
    decides: 'weights',
  },
  'rotary-interleaved': {
    flag: toggle('Lets rope rotate pairs of neighbouring features instead of halves of a head.'),
    key: 'rotaryInterleaved',
    decides: 'weights',
  },
  ...rotationFields,
  'rotary-seq-len-interpolation-factor': {
    flag: positiveNumber(
      'What all angles of rope are divided by, for sequences longer than in pretraining.',
      { default: 1 },
    ),
    key: 'rotarySeqLenInterpolationFactor',
    decides: 'weights',
  },
  'use-rope-scaling': {
    flag: toggle('Scales the frequencies of rope as Llama 3.1 does.'),
    key: 'useRopeScaling',
    decides: 'weights',
  },
  'rope-scaling-factor': {
    flag: positiveNumber('Factor of --use-rope-scaling.', { default: 8 }),
    key: 'ropeScalingFactor',
    decides: 'weights',
  },
  ...rotaryScalingFields,
  'max-position-embeddings': {
    flag: count('Positions that the model has embeddings for.', {
      defaultText: 'with a preset: --seq-length',
    }),
    key: 'maxPositionEmbeddings',
    decides: 'weights',
    isRequired: true,
    isSize: true,
    otherwise: ({ sequenceLength }) => sequenceLength,
  },
  'attention-dropout': {
    flag: fraction('Dropout probability of attention weights.', { default: 0.1 }),
    key: 'attentionDropout',
    decides: 'learning',
  },
  'hidden-dropout': {
    flag: fraction('Dropout probability of embeddings and before residual additions.', { default: 0.1 }),
    key: 'hiddenDropout',
    decides: 'learning',
  },
  normalization: {
    flag: choice(['LayerNorm', 'RMSNorm'], 'Kind of norms.', { default: 'LayerNorm' }),
    kind: 'gpt',
    key: 'normalization',
    decides: 'weights',
  },
  'norm-epsilon': {
    flag: positiveNumber('Epsilon of norms.', { default: 1e-5 }),
    key: 'layerNormEpsilon',
    decides: 'weights',
  },
  gelu: {
    flag: choice(['tanh', 'erf'], 'GELU by its tanh approximation or by the error function.', {
      defaultText: 'as in the original: tanh in a GPT, erf in a BERT',
    }),
    key: 'geluKind',
    decides: 'weights',
    // returns undefined if the kind of model is not given, because a run's configuration then leaves the kind
    // of GELU open
    otherwise: ({ kind }) => kind && { gpt: 'tanh', bert: 'erf' }[kind],
    isUnused: ({ swiglu = false, squaredRelu = false, quickGeglu = false }) =>
      swiglu || squaredRelu || quickGeglu,
  },
  swiglu: {
    flag: toggle(
      'Gated feed-forward layers of three matrices, with SiLU, instead of GELU; without --ffn-hidden-size of two thirds of the width, in whole 64s.',
    ),
    kind: 'gpt',
    key: 'swiglu',
    decides: 'weights',
  },
  'squared-relu': {
    flag: toggle('Squared ReLU in feed-forward layers instead of GELU.'),
    kind: 'gpt',
    key: 'squaredRelu',
    decides: 'weights',
  },
  ...gateFields,
  'qk-layernorm': {
    flag: toggle(
      'Normalizes queries and keys over the features of their head, by the norm of --normalization.',
    ),
    kind: 'gpt',
    key: 'qkLayernorm',
    decides: 'weights',
  },
  'qk-norm-whole-width': {
    flag: openToggle(
      'Lets --qk-layernorm normalize the queries of all heads together, and the keys, as OLMoE does. With --normalization RMSNorm.',
    ),
    kind: 'gpt',
    key: 'qkNormWholeWidth',
    decides: 'weights',
    isUnused: neverUnused,
    conversion: presentIfOn,
  },
  'disable-bias-linear': {
    flag: toggle('No biases in linear layers.'),
    kind: 'gpt',
    key: 'addBiasLinear',
    conversion: negated,
    decides: 'weights',
  },
  'add-qkv-bias': {
    flag: toggle('Biases of queries, keys and values even with --disable-bias-linear.'),
    kind: 'gpt',
    key: 'addQkvBias',
    decides: 'weights',
  },
  ...expertFields,
  'model-blocks': {
    flag: text(
      'A JavaScript module whose default export gives each layer its block, in place of the one that the flags above describe.',
      { placeholder: 'FILE' },
    ),
    key: 'modelBlocks',
    decides: 'weights',
    isUnused: neverUnused,
  },
  'init-method-std': {
    flag: positiveNumber(
      'Standard deviation of initial weights; divided by sqrt(2 x layers) for those before a residual addition.',
      { default: 0.02 },
    ),
    key: 'initMethodStd',
    decides: 'initial-weights',
  },
  'untie-embeddings-and-output-weights': {
    flag: toggle('Gives the output layer weights of its own instead of the token embedding.'),
    kind: 'gpt',
    key: 'tieEmbeddings',
    conversion: negated,
    decides: 'weights',
  },
  'make-vocab-size-divisible-by': {
    flag: count(
      'Pads the vocabulary to a multiple of this, for faster matmuls. Padding never changes the loss.',
      { default: 128 },
    ),
    key: 'makeVocabularySizeDivisibleBy',
    decides: 'padding',
    isSize: true,
  },
  'layer-norm-placement': {
    flag: choice(
      ['pre', 'post'],
      "Layer norm before each sublayer (Megatron-LM's rearrangement, stable in large models) or after it (the original).",
      { default: 'pre' },
    ),
    kind: 'bert',
    key: 'layerNormPlacement',
    decides: 'weights',
  },
  'bert-no-binary-head': {
    flag: toggle('No sentence-order head: samples are one text, and only masked tokens have a loss.'),
    kind: 'bert',
    key: 'sentenceOrderHead',
    conversion: negated,
    decides: 'weights',
  },
} as const satisfies Readonly<Record<string, ArchitectureField>>;
