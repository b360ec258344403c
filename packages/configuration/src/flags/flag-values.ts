import type { MtlErrorOptions } from '@mtl/errors';
import type * as z from 'zod';
import type { HasDefault } from './flag-kinds.js';
import type { FlagElsewhere } from './flags-elsewhere.js';
import type { OptionName } from './option-names.js';

/** The schemas of a topic's flags, keyed by flag name. */
export type FlagFragment = Readonly<Record<string, z.ZodType>>;

/** The error about a flag: its code, the valid values and the remedy. */
export interface FlagProblem extends MtlErrorOptions {
  readonly code: `MTL_${string}`;
}

/** The intersection of the members of a union. */
export type AllOf<Union> = (Union extends unknown ? (each: Union) => void : never) extends (
  all: infer All,
) => void
  ? All
  : never;

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

/** The type of an object without its properties that are undefined. */
type WithoutUndefined<Values> = {
  readonly [Key in keyof Values as undefined extends Values[Key] ? never : Key]: Values[Key];
} & {
  readonly [Key in keyof Values as undefined extends Values[Key] ? Key : never]?: Exclude<
    Values[Key],
    undefined
  >;
};

/** Returns an object without its properties that are undefined. */
export const withoutUndefined = <Values extends object>(values: Values): WithoutUndefined<Values> =>
  Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== undefined),
  ) as WithoutUndefined<Values>;
