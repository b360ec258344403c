import { schemasOfArchitecture } from '../architecture/fields-of.js';
import { fraction } from './flag-kinds.js';

/** What only a BERT has: its architecture and its samples. */
export const bertFlags = {
  ...schemasOfArchitecture('bert'),
  'mask-prob': fraction('Share of the tokens to mask and predict.', { default: 0.15 }),
  'short-seq-prob': fraction('Share of the samples that aim at a length below --seq-length.', {
    default: 0.1,
  }),
};
