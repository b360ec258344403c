import type * as z from 'zod';
import type { HasDefault } from './flag-kinds.js';
import type { FlagElsewhere } from './flags-elsewhere.js';
import type { OptionName } from './option-names.js';

/** The schemas of a topic's flags, keyed by flag name. */
export type FlagFragment = Readonly<Record<string, z.ZodType>>;

type ReadonlyValue<Value> = Value extends readonly (infer Item)[] ? readonly Item[] : Value;

/** The names of the flags in a topic whose values a run's configuration stores under their option names. */
type NameIn<Fragment extends FlagFragment> = Exclude<keyof Fragment & string, FlagElsewhere>;

type NameWithDefault<Fragment extends FlagFragment> = {
  [Name in NameIn<Fragment>]: Fragment[Name] extends HasDefault ? Name : never;
}[NameIn<Fragment>];

/**
 * The values of a topic's flags in a run's configuration, keyed by option name. Flags of `flagsOfObjects` and
 * `flagsElsewhere` are left out. Values without a default may be absent, except for the flags in `Present`,
 * which have a value in every run.
 */
export type FlagValues<Fragment extends FlagFragment, Present extends NameIn<Fragment> = never> = {
  readonly [Name in NameWithDefault<Fragment> | Present as OptionName<Name>]: ReadonlyValue<
    z.infer<Fragment[Name]>
  >;
} & {
  readonly [Name in Exclude<
    NameIn<Fragment>,
    NameWithDefault<Fragment> | Present
  > as OptionName<Name>]?: ReadonlyValue<z.infer<Fragment[Name]>>;
};
