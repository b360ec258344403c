import { describeFlag, type Flags, readFlagValue } from '@mtl/configuration';
import { Option } from 'commander';
import { suggestValues } from './suggested-values.js';

type FlagName = keyof Flags;

/**
 * Flags of a training run on another command: their names, help and checks are the same. A switch has a
 * `--no-NAME` that help leaves out.
 */
export function trainingFlagOptions(names: readonly FlagName[]): readonly Option[] {
  return names.flatMap((name) => {
    const option = optionOf(name);
    if (option.required) return [option];
    return [option, new Option(`--no-${name}`).hideHelp()];
  });
}

function optionOf(name: FlagName): Option {
  const { placeholder, text } = describeFlag(name);
  if (placeholder === '') return new Option(`--${name}`, text);
  const option = new Option(`--${name} <${placeholder}>`, text).argParser((value) =>
    readFlagValue({ name, value, where: 'on the command line' }),
  );
  return suggestValues(option, placeholder.includes('|') ? placeholder.split('|') : []);
}

/** The values of such options, by the names of the flags. */
export function trainingFlagValues<Name extends FlagName>(
  values: object,
  names: readonly Name[],
): Pick<Flags, Name> {
  const given = values as Readonly<Record<string, unknown>>;
  const entries = names.map((name) => [name, given[optionOf(name).attributeName()]] as const);
  // each was read by its flag's schema
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined)) as Pick<Flags, Name>;
}
