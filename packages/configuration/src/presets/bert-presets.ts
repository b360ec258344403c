import type { Flags } from '../flags/flag-schema.js';
import { bertBase } from './bert-base.js';
import { bertDefault } from './bert-default.js';
import { bertLarge } from './bert-large.js';
import { megatronBertWith1300m } from './megatron-bert-1.3b.js';
import { megatronBertWith3900m } from './megatron-bert-3.9b.js';
import { megatronBertWith336m } from './megatron-bert-336m.js';

/** Named sets of flags (--preset) for BERT, from the smallest model to the largest. */
export const bertPresets = {
  'bert-default': bertDefault,
  'bert-base': bertBase,
  'bert-large': bertLarge,
  'megatron-bert-336m': megatronBertWith336m,
  'megatron-bert-1.3b': megatronBertWith1300m,
  'megatron-bert-3.9b': megatronBertWith3900m,
} as const satisfies Record<string, Flags>;
