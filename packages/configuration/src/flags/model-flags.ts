import { choice, count, fraction, positiveNumber, toggle } from './flag-kinds.js';

/** The architecture: GPT-2 with Megatron-LM's names. */
export const modelFlags = {
  'num-layers': count('Transformer layers.'),
  'hidden-size': count('Width of the residual stream.'),
  'ffn-hidden-size': count('Width of the feed-forward layer.', { defaultText: '4 x --hidden-size' }),
  'num-attention-heads': count('Attention heads; must divide --hidden-size.'),
  'max-position-embeddings': count('Positions that the model has embeddings for.', {
    defaultText: 'with a preset: --seq-length',
  }),
  'attention-dropout': fraction('Dropout probability of attention weights.', { default: 0.1 }),
  'hidden-dropout': fraction('Dropout probability of embeddings and before residual additions.', {
    default: 0.1,
  }),
  'norm-epsilon': positiveNumber('Epsilon of layer norms.', { default: 1e-5 }),
  gelu: choice(['tanh', 'erf'], 'GELU by its tanh approximation or by the error function.', {
    defaultText: 'as in the original: tanh in a GPT, erf in a BERT',
  }),
  'init-method-std': positiveNumber(
    'Standard deviation of initial weights; divided by sqrt(2 x layers) for those before a residual addition.',
    { default: 0.02 },
  ),
  'untie-embeddings-and-output-weights': toggle(
    'Give the output layer weights of its own instead of the token embedding.',
  ),
  'make-vocab-size-divisible-by': count(
    'Pad the vocabulary to a multiple of this, for faster matmuls. Padding never changes the loss.',
    { default: 128 },
  ),
};
