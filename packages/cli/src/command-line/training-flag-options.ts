import { describeFlag, type Flags, readFlagValue } from '@mtl/recipes';
import { Option } from 'commander';

type FlagName = keyof Flags;

/** Flags of a training on another command: their names, help and checks are the same. */
export function trainingFlagOptions(names: readonly FlagName[]): readonly Option[] {
  return names.map((name) => {
    const { placeholder, text } = describeFlag(name);
    if (placeholder === '') return new Option(`--${name}`, text);
    return new Option(`--${name} <${placeholder}>`, text).argParser((value) =>
      readFlagValue({ name, value, where: 'on the command line' }),
    );
  });
}

/** The values of such options, by the names of the flags. */
export function trainingFlagValues<Name extends FlagName>(
  values: object,
  names: readonly Name[],
): Pick<Flags, Name> {
  const given = values as Readonly<Record<string, unknown>>;
  const entries = trainingFlagOptions(names).map(
    (option, index) => [names[index]!, given[option.attributeName()]] as const,
  );
  // each was read by its flag's schema
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined)) as Pick<Flags, Name>;
}
