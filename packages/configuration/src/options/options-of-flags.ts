import type { Flags } from '../flags/flag-schema.js';
import { optionNameOf } from './option-names.js';
import type { RunOptions } from './run-options.js';

/** The options that values of flags stand for; what only command lines have, as --dry-run, is left out. */
export function optionsOfFlags(flags: Flags): RunOptions {
  const options: Record<string, Record<string, unknown>> = {};
  for (const [flag, value] of Object.entries(flags)) {
    const name = optionNameOf(flag);
    if (name !== undefined) options[name.topic] = { ...options[name.topic], [name.key]: value };
  }
  return options;
}
