import type { Flags } from '../flags/flag-schema.js';
import { char10m } from './char-10m.js';
import { defaultPreset } from './default.js';
import { gpt2With1300m } from './gpt2-1.3b.js';
import { gpt2With2700m } from './gpt2-2.7b.js';
import { gpt2With124m } from './gpt2-124m.js';
import { gpt2With355m } from './gpt2-355m.js';
import { gpt2With774m } from './gpt2-774m.js';
import { megatronWith1200m } from './megatron-1.2b.js';
import { megatronWith2500m } from './megatron-2.5b.js';
import { megatronWith4200m } from './megatron-4.2b.js';
import { megatronWith8300m } from './megatron-8.3b.js';

/** Named sets of flags (--preset) for GPT, from the smallest model to the largest. */
export const presets = {
  default: defaultPreset,
  'char-10m': char10m,
  'gpt2-124m': gpt2With124m,
  'gpt2-355m': gpt2With355m,
  'gpt2-774m': gpt2With774m,
  'gpt2-1.3b': gpt2With1300m,
  'gpt2-2.7b': gpt2With2700m,
  'megatron-1.2b': megatronWith1200m,
  'megatron-2.5b': megatronWith2500m,
  'megatron-4.2b': megatronWith4200m,
  'megatron-8.3b': megatronWith8300m,
} as const satisfies Record<string, Flags>;

export const presetNames = Object.keys(presets) as readonly (keyof typeof presets)[];
