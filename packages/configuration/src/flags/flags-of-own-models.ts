import { architectureFlagNames } from '../architecture/fields-of.js';
import type { FlagName } from './flag-schema.js';

/** Flags that describe a tokenizer. */
export const tokenizerFlagNames = [
  'tokenizer-type',
  'tokenizer-model',
  'vocab-file',
  'merge-file',
  'vocab-size',
] as const satisfies readonly FlagName[];

/**
 * Flags of which one means a model or data of the user's own: no preset applies unless it is named. Batch,
 * precision, parallel, schedule, length and logging flags adjust the default preset.
 */
export const flagsOfOwnModels: ReadonlySet<FlagName> = new Set<FlagName>([
  ...architectureFlagNames(({ decides }) => decides === 'weights'),
  ...(['seq-length', 'data-path', 'mock-data', 'train-data', 'load', 'load-hf'] as const),
  ...tokenizerFlagNames,
]);
