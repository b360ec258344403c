import { choice, count } from './flag-kinds.js';

/** Which activations are computed again instead of being kept: of a pretraining and of a fine-tuning. */
export const recomputeFlags = {
  'recompute-granularity': choice(
    ['full', 'selective'],
    'Recomputes activations in the backward pass instead of keeping them: whole layers, or attention only (--recompute-activations).',
  ),
  'recompute-method': choice(
    ['uniform', 'block'],
    'With full recomputation: chunks of --recompute-num-layers layers each, or that many first layers of a stage.',
  ),
  'recompute-num-layers': count('Layers per chunk (uniform) or layers to recompute (block).'),
};
