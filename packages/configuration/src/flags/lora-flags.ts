import { count, fraction, positiveNumber, texts, toggle } from './flag-kinds.js';

/** Low-rank adapters (LoRA), which are trained in place of the model's own weights. */
export const loraFlags = {
  'lora-rank': count(
    'Trains low-rank adapters of this rank (LoRA) instead of the weights that --load-hf or --load names, which stay as they are.',
  ),
  'lora-alpha': positiveNumber('What adapters add is scaled by this over --lora-rank.', {
    defaultText: '--lora-rank',
  }),
  'use-rslora': toggle('Scales what adapters add by --lora-alpha over the square root of --lora-rank.'),
  'lora-dropout': fraction(
    'Probability of dropping a feature of an adapted layer, before the adapter; not of experts.',
    { default: 0 },
  ),
  'lora-targets': texts(
    'Linear layers that get adapters, by their names in the transformers library (q_proj, c_attn, experts.down_proj ...), or all-linear.',
    { defaultText: 'all-linear' },
  ),
};
