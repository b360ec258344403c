import { flagsOfStart } from '@mtl/configuration/saved';
import type { RunStart } from './run-record.js';

/**
 * Returns the flags, without dashes, that select the initial weights of a run, as the run's command names
 * them. For example, `mtl sft` has the flag `--model` in place of several flags.
 */
export function listStartFlags({ flags, command }: Pick<RunStart, 'flags' | 'command'>): readonly string[] {
  const given = flagsOfStart.filter((name) => (flags[name] ?? false) !== false);
  const isOfModel = command.some((word) => /^--model(=|$)/.test(word));
  if (!isOfModel) return given;
  return ['model', ...given.filter((name) => command.some((word) => word.split('=', 1)[0] === `--${name}`))];
}
