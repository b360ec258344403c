import { ConfigurationError } from '../mtl-error.js';
import { nearestName } from '../nearest-names.js';

/** The location of the option being checked, and the code of errors about it. */
export interface OptionPlace {
  /** The option's path within all options, such as `optimizer.lr` or `extensions[0].name`. */
  readonly path: string;
  /** The code of errors about the option. */
  readonly code: `MTL_${string}`;
}

/** A check for the value of one option. */
export interface OptionCheck<IsRequired extends boolean = boolean> {
  /** True if the caller must give the option. */
  readonly isRequired: IsRequired;
  /**
   * Checks a value, which must not be undefined. @throws ConfigurationError, whose message names the option's
   * path, if the value is invalid
   */
  readonly check: (value: unknown, place: OptionPlace) => void;
}

/**
 * A check for each option in `Options`. For an option that may not be omitted, the check must be made by
 * `required`.
 */
export type OptionChecks<Options> = {
  readonly [Name in keyof Options & string]-?: undefined extends Options[Name]
    ? OptionCheck<false>
    : OptionCheck<true>;
};

/**
 * Describes a value for an error message. Strings are quoted, to distinguish them from numbers, and long
 * strings are shortened.
 */
export function describeValue(value: unknown): string {
  if (typeof value === 'string')
    return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}...` : value);
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : `an array of ${value.length}`;
  if (typeof value !== 'object' || value === null) return String(value);
  if (isPlainObject(value)) return Object.keys(value).length === 0 ? 'an empty object' : 'an object';
  return `an object of ${nameClass(value)}`;
}

function nameClass(value: object): string {
  const { constructor: made } = value as { readonly constructor?: unknown };
  return typeof made === 'function' && made.name !== '' ? made.name : 'another class';
}

/** Returns true if `value` is an object literal `{ ... }`. */
function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  // an object literal created in another realm than this code (for example by node:vm) has that realm's
  // Object.prototype, whose own prototype is null
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Returns the error for an option's invalid value. */
function wrongOption(
  value: unknown,
  { path, code }: OptionPlace,
  { expected, meant }: { readonly expected: string; readonly meant?: string | undefined },
): ConfigurationError {
  const message = `${path} is ${value === undefined ? 'missing' : describeValue(value)}`;
  return new ConfigurationError(code, message, { expected, ...makeRemedy(meant), details: { option: path } });
}

/**
 * Makes a check that accepts a value if `accepts` returns true. `expected` describes the accepted values in
 * the error.
 */
export function optionThat(expected: string, accepts: (value: unknown) => boolean): OptionCheck<false> {
  return {
    isRequired: false,
    check: (value, place) => {
      if (!accepts(value)) throw wrongOption(value, place, { expected });
    },
  };
}

/** Makes a check for an option that may not be omitted. */
export const required = ({ check }: OptionCheck): OptionCheck<true> => ({ isRequired: true, check });

/** Accepts a string that is not empty, such as a path or a name. */
export const textOption = optionThat('a text', (value) => typeof value === 'string' && value !== '');

/** The check for true or false. */
export const switchOption = optionThat('true or false', (value) => typeof value === 'boolean');

/** The check for any function. */
export const functionOption = optionThat('a function', (value) => typeof value === 'function');

/** Accepts a number that is not NaN. */
export const numberOption = optionThat(
  'a number',
  (value) => typeof value === 'number' && !Number.isNaN(value),
);

/** Makes the check for an integer from `least` to `most`, both included. */
export function wholeNumberOption(least: number, most = Number.MAX_SAFE_INTEGER): OptionCheck<false> {
  const upTo = most === Number.MAX_SAFE_INTEGER ? ' or more' : ` to ${most}`;
  return optionThat(
    `a whole number, ${least}${upTo}`,
    (value) => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most,
  );
}

/**
 * Makes the check for an option whose value must be one of the given names. The error suggests the nearest
 * name.
 */
export function choiceOption(names: readonly string[]): OptionCheck<false> {
  return {
    isRequired: false,
    check: (value, place) => {
      if (typeof value === 'string' && names.includes(value)) return;
      throw wrongOption(value, place, {
        expected: names.join(', '),
        meant: typeof value === 'string' ? nearestName(value, names) : undefined,
      });
    },
  };
}

/** Makes the check for a list whose elements must all pass the given check. */
export function listOption(
  { check }: OptionCheck,
  {
    what = 'an array',
    isEmptyRight = true,
  }: { readonly what?: string; readonly isEmptyRight?: boolean } = {},
): OptionCheck<false> {
  return {
    isRequired: false,
    check: (value, place) => {
      if (!Array.isArray(value) || (value.length === 0 && !isEmptyRight))
        throw wrongOption(value, place, { expected: what });
      for (const [index, each] of value.entries()) check(each, { ...place, path: `${place.path}[${index}]` });
    },
  };
}

/**
 * Makes the check for an object of any class whose members pass the given checks, such as a stream, an
 * extension or a signal. The object may have additional members.
 *
 * @param what the kind of object, for errors
 */
export function objectOption(
  what: string,
  members: Readonly<Record<string, OptionCheck>> = {},
): OptionCheck<false> {
  return {
    isRequired: false,
    check: (value, place) => {
      if (typeof value !== 'object' || value === null || Array.isArray(value))
        throw wrongOption(value, place, { expected: what });
      checkMembers(value as Readonly<Record<string, unknown>>, members, place);
    },
  };
}

/** Accepts the words of a command line, without the program's name. */
export const wordsOption = listOption(
  optionThat('a text', (word) => typeof word === 'string'),
  { what: 'an array of the words of a command line' },
);

/** Describes a group of options in errors about unknown names. */
export interface OptionGroupFacts {
  /** A noun phrase for the object that has the options, such as `a run`. */
  readonly of: string;
  /**
   * Returns the path of the option that the user may mean when writing an unknown name. Default: the most
   * similar known name.
   */
  readonly meant?: ((name: string) => string | undefined) | undefined;
}

/** Makes the check for a group of options, which must be an object literal without additional properties. */
export function groupOption(
  checks: Readonly<Record<string, OptionCheck>>,
  facts: OptionGroupFacts,
): OptionCheck<false> {
  return {
    isRequired: false,
    check: (value, place) => {
      if (!isPlainObject(value))
        throw wrongOption(value, place, { expected: `an object of options: ${listedOptions(checks)}` });
      for (const name of Object.keys(value))
        if (!Object.hasOwn(checks, name)) throw unknownOption(name, { place, checks, facts });
      checkMembers(value, checks, place);
    },
  };
}

/**
 * Checks the options of a function call: their names, and then their values in the order of `checks`.
 *
 * @param how.of a noun phrase for the object that has the options, such as `a run`
 * @param how.code the code of errors. Default: MTL_OPTION
 * @throws ConfigurationError for the first wrong option, whose message names its path
 */
export function checkOptions(
  options: unknown,
  how: OptionGroupFacts & {
    readonly checks: Readonly<Record<string, OptionCheck>>;
    readonly code?: `MTL_${string}`;
  },
): void {
  const { checks, code = 'MTL_OPTION' } = how;
  const path = isPlainObject(options) ? '' : `the value for the options of ${how.of}`;
  groupOption(checks, how).check(options, { path, code });
}

/** Checks a single argument, which does not belong to an object of options. */
export function checkArgument(
  value: unknown,
  {
    check,
    name,
    code = 'MTL_OPTION',
  }: { readonly check: OptionCheck; readonly name: string; readonly code?: `MTL_${string}` },
): void {
  check.check(value, { path: name, code });
}

function checkMembers(
  value: Readonly<Record<string, unknown>>,
  checks: Readonly<Record<string, OptionCheck>>,
  { path, code }: OptionPlace,
): void {
  for (const [name, { check, isRequired }] of Object.entries(checks)) {
    const member = value[name];
    if (member === undefined && !isRequired) continue;
    check(member, { path: joinPath(path, name), code });
  }
}

function unknownOption(
  name: string,
  {
    place: { path, code },
    checks,
    facts: { of, meant },
  }: {
    readonly place: OptionPlace;
    readonly checks: Readonly<Record<string, OptionCheck>>;
    readonly facts: OptionGroupFacts;
  },
): ConfigurationError {
  const nearest = nearestName(name, Object.keys(checks));
  const near = meant?.(name) ?? (nearest === undefined ? undefined : joinPath(path, nearest));
  return new ConfigurationError(code, `${joinPath(path, name)} is no option of ${of}`, {
    expected: near ?? listedOptions(checks),
    ...makeRemedy(near),
    details: { option: joinPath(path, name), ...(near === undefined ? {} : { near }) },
  });
}

const joinPath = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);

const makeRemedy = (meant: string | undefined): { readonly remedy?: string } =>
  meant === undefined ? {} : { remedy: `write ${meant}` };

/** Returns the names of the first options, as an example in errors. */
function listedOptions(checks: Readonly<Record<string, OptionCheck>>): string {
  const names = Object.keys(checks);
  return `{ ${names.slice(0, 16).join(', ')}${names.length > 16 ? ' ...' : ''} }`;
}
