import { choice, fraction, toggle } from './flag-kinds.js';

/** What only a BERT has. */
export const bertFlags = {
  'layer-norm-placement': choice(
    ['pre', 'post'],
    "Layer norm before each sublayer (Megatron-LM's rearrangement, stable in large models) or after it (the original).",
    { default: 'pre' },
  ),
  'bert-no-binary-head': toggle(
    'No sentence-order head: samples are one text, the loss is that of masked tokens.',
  ),
  'mask-prob': fraction('Share of the tokens to mask and predict.', { default: 0.15 }),
  'short-seq-prob': fraction('Share of the samples that aim at a length below --seq-length.', {
    default: 0.1,
  }),
};
