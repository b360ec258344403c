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
  negated,
  neverUnused,
  ofAll,
  ofBert,
  ofGpt,
  onlyWith,
  optional,
  presentIfOn,
} from './architecture-field.js';
import { attentionFields, rotationFields } from './attention-fields.js';
import { expertFields, gateFields, oneActivation } from './expert-fields.js';

/**
 * Returns a function that replaces `usual`, the value of Llama 3.1, by undefined, because models omit this
 * value.
 */
const unless = (usual: number) => (value: unknown) => (value === usual ? undefined : value);

const ofYarn = onlyWith(({ positionEmbeddingType }) => positionEmbeddingType === 'yarn');
const ofLlama3 = onlyWith(
  ({ positionEmbeddingType, useRopeScaling }) => positionEmbeddingType === 'rope' && useRopeScaling === true,
);
/** Makes a field of the factor that YaRN computes unless the factor is given. */
const ofYarnFactor = onlyWith(
  ({ positionEmbeddingType, yarnAttentionFactor }) =>
    positionEmbeddingType === 'yarn' && yarnAttentionFactor === undefined,
);

/**
 * The architecture fields that extend rotary position embeddings to sequences longer than in pretraining: the
 * scaling of Llama 3.1 with the names of the transformers library, and YaRN with Megatron-LM's names and
 * defaults. No flag has a default in its schema, so that configurations of other models have none of these
 * keys.
 */
export const rotaryScalingFields = {
  'rope-scaling-original-max-position-embeddings': ofLlama3(
    count('Positions of pretraining, of --use-rope-scaling.', {
      defaultText: '8192',
      canonical: unless(8192),
    }),
  ),
  'rope-scaling-low-freq-factor': ofLlama3(
    positiveNumber(
      'Wavelengths longer than the positions of pretraining divided by this are multiplied by --use-rope-scaling.',
      { defaultText: '1', canonical: unless(1) },
    ),
  ),
  'rope-scaling-high-freq-factor': ofLlama3(
    positiveNumber(
      'Wavelengths shorter than the positions of pretraining divided by this are kept by --use-rope-scaling.',
      { defaultText: '4', canonical: unless(4) },
    ),
  ),
  'rotary-scaling-factor': ofYarn(
    positiveNumber('Factor of yarn: the number of positions, divided by the positions of pretraining.', {
      defaultText: '1',
    }),
    { otherwise: () => 1 },
  ),
  'yarn-original-max-position-embeddings': ofYarn(
    count('Positions of pretraining, of yarn.', { defaultText: '4096' }),
    { otherwise: () => 4096 },
  ),
  'yarn-beta-fast': ofYarn(
    positiveNumber(
      'Yarn keeps frequencies that turn at least so often within the positions of pretraining.',
      { defaultText: '32' },
    ),
    { otherwise: () => 32 },
  ),
  'yarn-beta-slow': ofYarn(
    positiveNumber(
      'Yarn divides frequencies that turn at most so often within the positions of pretraining.',
      { defaultText: '1' },
    ),
    { otherwise: () => 1 },
  ),
  'yarn-correction-range-round-to-int': ofYarn(
    openToggle(
      'Lets the range of frequencies that yarn mixes begin and end at whole indices. On unless switched off.',
    ),
    { otherwise: () => true },
  ),
  mscale: ofYarnFactor(
    nonNegativeNumber(
      'Weight of ln(--rotary-scaling-factor) / 10 in what yarn multiplies queries and keys by.',
      { defaultText: '1' },
    ),
    { otherwise: () => 1 },
  ),
  'mscale-all-dim': ofYarnFactor(
    nonNegativeNumber('The same weight in what yarn divides them by.', { defaultText: '0' }),
    { otherwise: () => 0 },
  ),
  'yarn-attention-factor': ofYarn(
    positiveNumber(
      'What yarn multiplies queries and keys by, in place of what follows from --mscale and --mscale-all-dim.',
    ),
  ),
};

/**
 * The architecture fields by flag, in the order of help. This table is the only source for: the flags with
 * help and range checks, the architecture in a run's configuration, the fields that checkpoints save, the
 * fields that a resumed run compares, and the fields that a Hugging Face directory determines.
 */
export const architectureFields = {
  'num-layers': ofAll(count('Transformer layers.'), { isRequired: true, isSize: true }),
  'hidden-size': ofAll(count('Width of the residual stream.'), { isRequired: true, isSize: true }),
  'ffn-hidden-size': ofAll(
    count('Width of the feed-forward layer.', {
      defaultText: '4 x --hidden-size; with --swiglu 8/3 x, down to a multiple of 64, at least 64',
    }),
    {
      isSize: true,
      otherwise: ({ hiddenSize, swiglu }) =>
        hiddenSize && (swiglu ? 64 * Math.max(1, Math.floor((4 * hiddenSize * 2) / 3 / 64)) : 4 * hiddenSize),
    },
  ),
  'num-attention-heads': ofAll(count('Attention heads; must divide --hidden-size.'), {
    isRequired: true,
    isSize: true,
  }),
  'kv-channels': ofGpt(
    count('Features of an attention head.', { defaultText: '--hidden-size / --num-attention-heads' }),
    {
      key: 'kvChannels',
      isSize: true,
      otherwise: ({ hiddenSize, numAttentionHeads }) =>
        hiddenSize && numAttentionHeads && hiddenSize / numAttentionHeads,
    },
  ),
  'group-query-attention': ofGpt(
    toggle('Lets the attention heads of a group share keys and values (--num-query-groups).'),
  ),
  'num-query-groups': ofGpt(
    count('Groups of attention heads, with --group-query-attention.', {
      defaultText: '1 with --group-query-attention, else --num-attention-heads',
    }),
    {
      isSize: true,
      otherwise: ({ groupQueryAttention, numAttentionHeads }) =>
        groupQueryAttention ? 1 : numAttentionHeads,
    },
  ),
  ...attentionFields,
  'position-embedding-type': ofAll(
    choice(
      ['learned_absolute', 'rope', 'yarn', 'none'],
      'How a model knows the positions of tokens: by embeddings, by rotated queries and keys, or, of a GPT, by those with the frequencies of YaRN for longer sequences, or by its causal mask only.',
      { default: 'learned_absolute' },
    ),
  ),
  'rotary-base': ofAll(positiveNumber('Base of the frequencies of rope and yarn.', { default: 10_000 })),
  'rotary-percent': ofAll(share('Share of the features of a head that rope rotates.', { default: 1 })),
  'rotary-interleaved': ofAll(
    toggle('Lets rope rotate pairs of neighbouring features instead of halves of a head.'),
  ),
  ...rotationFields,
  'rotary-seq-len-interpolation-factor': ofAll(
    positiveNumber('What all angles of rope are divided by, for sequences longer than in pretraining.', {
      default: 1,
    }),
  ),
  'use-rope-scaling': ofAll(toggle('Scales the frequencies of rope as Llama 3.1 does.')),
  'rope-scaling-factor': ofAll(positiveNumber('Factor of --use-rope-scaling.', { default: 8 })),
  ...rotaryScalingFields,
  'max-position-embeddings': ofAll(
    count('Positions that the model has embeddings for.', { defaultText: 'with a preset: --seq-length' }),
    { isRequired: true, isSize: true, otherwise: ({ sequenceLength }) => sequenceLength },
  ),
  'attention-dropout': ofAll(fraction('Dropout probability of attention weights.', { default: 0.1 }), {
    decides: 'learning',
  }),
  'hidden-dropout': ofAll(
    fraction('Dropout probability of embeddings and before residual additions.', { default: 0.1 }),
    { decides: 'learning' },
  ),
  normalization: ofGpt(choice(['LayerNorm', 'RMSNorm'], 'Kind of norms.', { default: 'LayerNorm' })),
  'norm-epsilon': ofAll(positiveNumber('Epsilon of norms.', { default: 1e-5 })),
  gelu: ofAll(
    choice(['tanh', 'erf'], 'GELU by its tanh approximation or by the error function.', {
      defaultText: 'as in the original: tanh in a GPT, erf in a BERT',
    }),
    {
      // undefined if the kind of model is not given, because a run's configuration leaves this choice to the
      // kind of model
      otherwise: ({ kind }) => kind && { gpt: 'tanh', bert: 'erf' }[kind],
      isUnused: ({ swiglu = false, squaredRelu = false, quickGeglu = false }) =>
        swiglu || squaredRelu || quickGeglu,
    },
  ),
  swiglu: ofGpt(
    toggle(
      'Gated feed-forward layers of three matrices, with SiLU, instead of GELU; without --ffn-hidden-size of two thirds of the width, in whole 64s.',
      { excludes: { 'squared-relu': oneActivation } },
    ),
  ),
  'squared-relu': ofGpt(toggle('Squared ReLU in feed-forward layers instead of GELU.')),
  ...gateFields,
  'qk-layernorm': ofGpt(
    toggle('Normalizes queries and keys over the features of their head, by the norm of --normalization.'),
  ),
  'qk-norm-whole-width': optional(
    openToggle(
      'Lets --qk-layernorm normalize the queries of all heads together, and the keys, as OLMoE does. With --normalization RMSNorm.',
      { needs: ['qk-layernorm', 'changes norms of queries and keys, and there are none'] },
    ),
    { conversion: presentIfOn },
  ),
  'disable-bias-linear': ofGpt(toggle('No biases in linear layers.'), {
    key: 'addBiasLinear',
    conversion: negated,
  }),
  'add-qkv-bias': ofGpt(toggle('Biases of queries, keys and values even with --disable-bias-linear.')),
  ...expertFields,
  'model-blocks': ofAll(
    text(
      'A JavaScript module whose default export gives each layer its block, in place of the one that the flags above describe.',
      { placeholder: 'FILE' },
    ),
    { isUnused: neverUnused },
  ),
  'init-method-std': ofAll(
    positiveNumber(
      'Standard deviation of initial weights; divided by sqrt(2 x layers) for those before a residual addition.',
      { default: 0.02 },
    ),
    { decides: 'initial-weights' },
  ),
  'untie-embeddings-and-output-weights': ofGpt(
    toggle('Gives the output layer weights of its own instead of the token embedding.'),
    { key: 'tieEmbeddings', conversion: negated },
  ),
  'make-vocab-size-divisible-by': ofAll(
    count('Pads the vocabulary to a multiple of this, for faster matmuls. Padding never changes the loss.', {
      default: 128,
    }),
    { key: 'makeVocabularySizeDivisibleBy', decides: 'padding', isSize: true },
  ),
  'layer-norm-placement': ofBert(
    choice(
      ['pre', 'post'],
      "Layer norm before each sublayer (Megatron-LM's rearrangement, stable in large models) or after it (the original).",
      { default: 'pre' },
    ),
  ),
  'bert-no-binary-head': ofBert(
    toggle('No sentence-order head: samples are one text, and only masked tokens have a loss.'),
    { key: 'sentenceOrderHead', conversion: negated },
  ),
};
