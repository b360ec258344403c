import { recomputableModules } from '@mtl/models';
import { choice, choices, count } from './flag-kinds.js';

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
  'recompute-modules': choices(
    recomputableModules,
    'With selective recomputation: which parts of layers are computed again; moe: mixtures of experts, whose choices are kept. core_attn and moe_act always are.',
    { defaultText: 'core_attn' },
  ),
  'recompute-num-layers': count('Layers per chunk (uniform) or layers to recompute (block).'),
};
