import type { ConversationFiles } from '@mtl/data/conversations';
import type { MuonOptions } from '@mtl/optimizer';
import * as z from 'zod';

/**
 * The effective values that a resumed run compares. They may differ from the flags' values, because they
 * depend on several flags or because a flag has no effect. They are a part of the run's configuration, whose
 * full type this module cannot import, because that type is derived from the flags.
 */
export interface SettingsInForce {
  readonly model: { readonly sequenceLength: number };
  readonly training: { readonly globalBatchSize: number };
  readonly optimizer: {
    readonly muon?: Omit<MuonOptions, 'dtype'> | undefined;
    readonly statePrecision?: StatePrecision | undefined;
  };
  readonly data: {
    readonly dataPath: readonly string[];
    readonly conversations?: ConversationFiles | undefined;
  };
}

/** The precisions in which a precision-aware optimizer keeps states and master weights. */
export interface StatePrecision {
  readonly expAvgDtype: 'fp32' | 'bf16' | 'fp16';
  readonly expAvgSqDtype: 'fp32' | 'bf16' | 'fp16';
  /** The precision in which gradients are kept and reduced. */
  readonly mainGradsDtype: 'fp32' | 'bf16';
  /** True if each master weight is stored as the model's bfloat16 weight plus a remainder. */
  readonly storeParamRemainders: boolean;
}

/**
 * Properties of a flag that its schema does not contain: the flag's form on a command line and its help text.
 */
export interface FlagFacts {
  /** The help text of the flag, in one or two sentences. Help appends the default and the choices. */
  readonly description: string;
  readonly kind:
    | 'integer'
    | 'number'
    | 'text'
    | 'choice'
    | 'boolean'
    | 'integers'
    | 'numbers'
    | 'texts'
    | 'choices';
  /** The placeholder of the value in help, such as `N` or `DIR`; empty for a switch. */
  readonly placeholder: string;
  /** The flag's value if neither command line, file nor preset gives a value. */
  readonly default?: unknown;
  /** A description of a default that depends on other flags. */
  readonly defaultText?: string;
  /** A description of valid values, for errors. Default: derived from the range. */
  readonly expected?: string;
  /** Values that other programs accept but this project does not, and a replacement for each. */
  readonly otherChoices?: Readonly<Record<string, string>>;
  /** Returns the canonical form of a value; undefined if the value means the same as omitting the flag. */
  readonly canonical?: ((value: unknown) => unknown) | undefined;
  /**
   * The flag without which giving this flag is an error, and the end of the error's sentence:
   * `['save', 'has nowhere to save to']`.
   */
  readonly needs?: readonly [flag: string, why: string];
  /** The flags that cannot have a value in the same run, each with the reason. */
  readonly excludes?: Readonly<Record<string, string>>;
  /**
   * How a resumed run compares the flag, if the flag affects how a model is trained: `true` compares the
   * flag's value, and a function returns an effective value to compare. Absent if the flag is not compared,
   * because it is about paths, reports or the layout, or about the schedule, which a resumed run refuses to
   * change in any case.
   */
  readonly learning?: Learning | undefined;
}

export type Learning = true | ((settings: SettingsInForce) => unknown);

/** The facts about every flag, keyed by the flag's schema. */
export const flagFacts = z.registry<FlagFacts>();

interface FlagOptions<Value>
  extends Pick<FlagFacts, 'expected' | 'canonical' | 'otherChoices' | 'needs' | 'excludes'> {
  readonly placeholder?: string;
  readonly default?: Value;
  readonly defaultText?: string;
  readonly learning?: Learning;
}

declare const hasDefault: unique symbol;

/** Marks the schema of a flag with a default, which therefore has a value in every run. */
export interface HasDefault {
  readonly [hasDefault]: true;
}

/** The type of a flag's schema, which records whether the flag has a default. */
type Flag<Schema, Options> = Options extends { readonly default: unknown } ? Schema & HasDefault : Schema;

type MakeNumericFlag = <const Options extends FlagOptions<number>>(
  description: string,
  options?: Options,
) => Flag<z.ZodNumber, Options>;

function withFacts<Schema extends z.ZodType>(schema: Schema, facts: FlagFacts): Schema {
  flagFacts.add(schema, facts);
  return schema;
}

function numeric(kind: 'integer' | 'number', schema: z.ZodNumber): MakeNumericFlag {
  const placeholder = kind === 'integer' ? 'N' : 'X';
  // Each call clones the schema, because facts are stored by schema.
  return ((description, options) =>
    withFacts(schema.clone(), { description, kind, placeholder, ...options })) as MakeNumericFlag;
}

/** Makes a flag that takes an integer of 1 or more. */
export const count: MakeNumericFlag = numeric('integer', z.int().min(1));

/** Makes a flag that takes an integer of 0 or more. */
export const naturalNumber: MakeNumericFlag = numeric('integer', z.int().min(0));

/**
 * Makes a flag that takes an integer from 0 to 2^32 - 1. This is the range of seeds of NumPy's generator,
 * which shuffles the samples.
 */
export const seedNumber: MakeNumericFlag = numeric(
  'integer',
  z
    .int()
    .min(0)
    .max(2 ** 32 - 1),
);

/** Makes a flag that takes any number. */
export const anyNumber: MakeNumericFlag = numeric('number', z.number());

/** Makes a flag that takes a number above 0. */
export const positiveNumber: MakeNumericFlag = numeric('number', z.number().gt(0));

/** Makes a flag that takes a number of 0 or more. */
export const nonNegativeNumber: MakeNumericFlag = numeric('number', z.number().min(0));

/**
 * Makes a flag that takes a number from 0 to just below 1: a dropout probability, a decay rate, a fraction of
 * the steps.
 */
export const fraction: MakeNumericFlag = numeric('number', z.number().min(0).lt(1));

/** Makes a flag that takes a number above 0, up to 1. */
export const share: MakeNumericFlag = numeric('number', z.number().gt(0).max(1));

/** Makes a flag whose value is a non-empty string, such as a path or a name. */
export function text<const Options extends FlagOptions<string>>(
  description: string,
  options?: Options,
): Flag<z.ZodString, Options> {
  const facts: FlagFacts = { description, kind: 'text', placeholder: 'TEXT', ...options };
  return withFacts(z.string().min(1), facts) as Flag<z.ZodString, Options>;
}

/** Makes a flag that takes a string that matches a pattern; `placeholder` is an example. */
export function patternedText(
  description: string,
  {
    pattern,
    ...facts
  }: { readonly pattern: RegExp } & Pick<FlagFacts, 'placeholder' | 'expected' | 'defaultText' | 'canonical'>,
): z.ZodString {
  return withFacts(z.string().regex(pattern), { description, kind: 'text', ...facts });
}

/** Makes a flag that takes one of the given names. */
export function choice<
  const Names extends readonly [string, ...string[]],
  const Options extends FlagOptions<Names[number]>,
>(
  names: Names,
  description: string,
  options?: Options,
): Flag<z.ZodEnum<{ [Name in Names[number]]: Name }>, Options> {
  const facts: FlagFacts = { description, kind: 'choice', placeholder: names.join('|'), ...options };
  return withFacts(z.enum(names), facts) as never;
}

/** Makes a switch: `--name` turns it on, and `--no-name` turns it off. */
export function toggle(
  description: string,
  options: Pick<FlagOptions<never>, 'learning' | 'needs' | 'excludes'> = {},
): z.ZodBoolean & HasDefault {
  const facts: FlagFacts = { description, kind: 'boolean', placeholder: '', default: false, ...options };
  return withFacts(z.boolean(), facts) as z.ZodBoolean & HasDefault;
}

/** Makes a switch whose default follows from other flags. */
export const openToggle = (
  description: string,
  options: Pick<FlagOptions<never>, 'needs' | 'excludes'> = {},
): z.ZodBoolean => withFacts(z.boolean(), { description, kind: 'boolean', placeholder: '', ...options });

type MakeListFlag<Item extends z.ZodType> = (
  description: string,
  options?: FlagOptions<readonly z.infer<Item>[]>,
) => z.ZodArray<Item>;

/** Returns a function that makes flags of one or more values: all arguments up to the next flag. */
const listOf =
  <Item extends z.ZodType>(kind: FlagFacts['kind'], item: Item, placeholder: string): MakeListFlag<Item> =>
  (description, options) =>
    withFacts(z.array(item).min(1), { description, kind, placeholder, ...options });

/** Makes a flag that takes several texts. */
export const texts = listOf('texts', z.string().min(1), 'TEXT ...');

/** Makes a flag that takes one or more numbers of 0 or more. */
export const numberList = listOf('numbers', z.number().min(0), 'X ...');

/** Makes a flag that takes one or more integers of 1 or more. */
export const countList = listOf('integers', z.int().min(1), 'N ...');

/**
 * Makes a flag whose values are one or more names from the given list. All arguments up to the next flag are
 * its values.
 */
export function choices<const Names extends readonly [string, ...string[]]>(
  names: Names,
  description: string,
  options: FlagOptions<readonly Names[number][]> = {},
): z.ZodArray<z.ZodEnum<{ [Name in Names[number]]: Name }>> {
  return listOf('choices', z.enum(names), 'NAME ...')(description, options as object) as never;
}

/** Makes a flag that takes an integer of 1 or more for each word of `placeholders`. */
export function counts(description: string, placeholders: string): z.ZodArray<z.ZodNumber> {
  return withFacts(z.array(z.int().min(1)).length(placeholders.split(' ').length), {
    description,
    kind: 'integers',
    placeholder: placeholders,
  });
}

/** Returns true if a flag takes all arguments up to the next flag. */
export const takesSeveral = ({ kind }: FlagFacts): boolean =>
  ['texts', 'integers', 'numbers', 'choices'].includes(kind);

/**
 * Makes a copy of a training flag for a different command, with its own help and default. Type, range and
 * canonical form stay the same.
 */
export function redescribed<Schema extends z.ZodType>(
  flag: Schema,
  facts: {
    readonly [Fact in 'description' | 'placeholder' | 'default' | 'defaultText']?:
      | FlagFacts[Fact]
      | undefined;
  },
): Schema {
  return withFacts(flag.clone() as Schema, { ...flagFacts.get(flag)!, ...facts } as FlagFacts);
}
