import { ConfigurationError, nearestName } from '@mtl/errors';
import { Option } from 'commander';

function refuse(flag: string, value: string, expected: string): never {
  throw new ConfigurationError('MTL_FLAG_VALUE', `${flag} ${value} cannot be used`, { expected });
}

const longName = (flags: string): string => /--[a-z0-9-]+/.exec(flags)![0];

/** Returns an option that takes an integer of at least `least`. Default: 1. */
export function countOption(
  flags: string,
  description: string,
  { least = 1 }: { least?: number } = {},
): Option {
  return new Option(flags, description).argParser((value: string) => {
    const isCount = /^\d+$/.test(value) && Number.isSafeInteger(Number(value)) && Number(value) >= least;
    return isCount ? Number(value) : refuse(longName(flags), value, `a whole number of ${least} or more`);
  });
}

/**
 * Returns an option that takes a number within bounds: `least` and `most` are included, `above` is excluded.
 */
export function numberOption(
  flags: string,
  description: string,
  bounds: { readonly least?: number; readonly above?: number; readonly most?: number },
): Option {
  const {
    least = Number.NEGATIVE_INFINITY,
    above = Number.NEGATIVE_INFINITY,
    most = Number.POSITIVE_INFINITY,
  } = bounds;
  const words = [
    ...(bounds.least === undefined ? [] : [`${least} or more`]),
    ...(bounds.above === undefined ? [] : [`above ${above}`]),
    ...(bounds.most === undefined ? [] : [`at most ${most}`]),
  ];
  return new Option(flags, description).argParser((value: string) => {
    const number = value.trim() === '' ? Number.NaN : Number(value);
    const fits = Number.isFinite(number) && number >= least && number > above && number <= most;
    return fits ? number : refuse(longName(flags), value, `a number, ${words.join(' and ')}`);
  });
}

/**
 * Returns an option whose value is one of `names`. If `several` is true, its value is a list of names that
 * are separated by commas.
 */
export function choiceOption(
  flags: string,
  description: string,
  names: readonly string[],
  { several = false } = {},
): Option {
  const option = new Option(flags, description).argParser((value: string) => {
    const unknown = (several ? value.split(',') : [value]).find((name) => !names.includes(name));
    if (unknown === undefined) return value;
    const near = nearestName(unknown, names);
    throw new ConfigurationError('MTL_FLAG_VALUE', `${longName(flags)} ${value} cannot be used`, {
      expected: `one of ${names.join(', ')}`,
      ...(near === undefined ? {} : { remedy: `pass ${longName(flags)} ${near}` }),
    });
  });
  option.argChoices = [...names];
  return option;
}

const suggestions = new WeakMap<Option, readonly string[]>();

/** Sets the names that shells suggest as values of an option. The option also accepts other values. */
export function suggestValues(option: Option, names: readonly string[]): Option {
  suggestions.set(option, names);
  return option;
}

/** Returns the values that shells suggest for an option: its choices, or the names set by `suggestValues`. */
export function suggestedValues(option: Option): readonly string[] {
  return option.argChoices ?? suggestions.get(option) ?? [];
}

/**
 * Returns the option --overwrite, without which a command refuses to replace the output of an earlier
 * command.
 */
export const overwriteOption = (what: string): Option =>
  new Option('--overwrite', `Replaces ${what} that an earlier command wrote.`);
