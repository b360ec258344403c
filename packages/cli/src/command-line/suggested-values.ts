import type { Option } from 'commander';

const suggestions = new WeakMap<Option, readonly string[]>();

/** An option that takes other values, too: names that shells complete. */
export function suggestValues(option: Option, names: readonly string[]): Option {
  suggestions.set(option, names);
  return option;
}

/** Values of an option that shells complete: its choices, or what `suggestValues` has named. */
export function suggestedValues(option: Option): readonly string[] {
  return option.argChoices ?? suggestions.get(option) ?? [];
}
