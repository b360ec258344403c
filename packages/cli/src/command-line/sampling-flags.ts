import type { Sampling } from '@mtl/inference';
import type { Command } from 'commander';
import { countOption, numberOption } from './option-values.js';

/** Values of the options of `addSamplingFlags`. */
export interface SamplingFlagValues {
  readonly temperature: number;
  readonly topK?: number;
  readonly topP: number;
  readonly seed: number;
}

/** Adds the flags that say how tokens are chosen. */
export function addSamplingFlags<Kind extends Command>(
  command: Kind,
  defaults: { readonly temperature: number; readonly topP: number },
): Kind {
  return command
    .addOption(
      numberOption('--temperature <t>', 'How evenly tokens are chosen; 0: always the most probable token.', {
        least: 0,
      }).default(defaults.temperature),
    )
    .addOption(countOption('--top-k <k>', 'Chooses among the k most probable tokens only. [all]'))
    .addOption(
      numberOption('--top-p <p>', 'Chooses among the most probable tokens whose probabilities sum to p.', {
        above: 0,
        most: 1,
      }).default(defaults.topP),
    )
    .addOption(
      countOption('--seed <n>', 'Seed of the choices: the same seed gives the same text.', {
        least: 0,
      }).default(0),
    );
}

/** How tokens are chosen by the values of the flags. */
export function samplingOf({ temperature, topK, topP }: SamplingFlagValues): Sampling {
  return { temperature, topP, ...(topK === undefined ? {} : { topK }) };
}
