import { flagsOfStart } from '@mtl/configuration/saved';
import type { RunStart } from './run-record.js';

/**
 * Returns the flags, without dashes, that select a run's initial weights, with the names that the run's
 * command uses. For example, `mtl sft` has the flag `--model` instead of several flags.
 */
export function listStartFlags({ flags, command }: Pick<RunStart, 'flags' | 'command'>): readonly string[] {
  const given = flagsOfStart.filter((name) => (flags[name] ?? false) !== false);
  const isOfModel = command.some((word) => /^--model(=|$)/.test(word));
  if (!isOfModel) return given;
  return ['model', ...given.filter((name) => command.some((word) => word.split('=', 1)[0] === `--${name}`))];
}
