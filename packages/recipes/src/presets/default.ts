import type { Flags } from '../flags/flag-schema.js';
import { char10m } from './char-10m.js';

/** What trains when nothing is asked for: the sizes of char-10m, and few enough steps for a first minute. */
export const defaultPreset: Flags = {
  ...char10m,
  'train-iters': 100,
  'eval-interval': 50,
  'eval-iters': 4,
};
