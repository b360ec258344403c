import { flagsOfStart } from '@mtl/configuration/internal';
import type { RunStart } from './run-record.js';

/**
 * Returns the flags, without dashes, that a run was started with for the weights that it began with, as its
 * command has them: `mtl sft` takes `--model`, which stands for several.
 */
export function flagsOfStartOf({ flags, command }: Pick<RunStart, 'flags' | 'command'>): readonly string[] {
  const given = flagsOfStart.filter((name) => (flags[name] ?? false) !== false);
  const isOfModel = command.some((word) => /^--model(=|$)/.test(word));
  if (!isOfModel) return given;
  return ['model', ...given.filter((name) => command.some((word) => word.split('=', 1)[0] === `--${name}`))];
}
