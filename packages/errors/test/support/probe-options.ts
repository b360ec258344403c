import { MtlError } from '../../src/index.js';

/** Values of every JavaScript type, a few of each type. Most values are wrong for any option. */
export const valuesOfAllTypes: readonly unknown[] = [
  ...[null, true, 5, Number.NaN, '', '5', 5n, Symbol('five')],
  ...[[], ['5'], [null], {}, { five: 5 }, () => 5, new Map()],
];

/** A function with options, and the facts that a probe of its options needs. */
export interface ProbedOptions {
  /** The name of the function, for reports. */
  readonly name: string;
  /** Calls the function with options. */
  readonly call: (options: unknown) => unknown;
  /** Valid options that the function accepts. */
  readonly right?: Readonly<Record<string, unknown>>;
  /**
   * For each option, by its path (`optimizer.lr`), a function that returns whether the option accepts a
   * value.
   */
  readonly accepts: Readonly<Record<string, (value: unknown) => boolean>>;
  /**
   * The option that is checked last. Calls about other options pass a wrong value for it, so that the
   * function never starts its work.
   */
  readonly last: string;
}

/** Returns options with a value at a path. */
function withValue(
  options: Readonly<Record<string, unknown>>,
  path: string,
  value: unknown,
): Readonly<Record<string, unknown>> {
  const at = path.indexOf('.');
  if (at < 0) return { ...options, [path]: value };
  const [group, rest] = [path.slice(0, at), path.slice(at + 1)];
  const inner = (options[group] ?? {}) as Readonly<Record<string, unknown>>;
  return { ...options, [group]: withValue(inner, rest, value) };
}

/** Returns the error that a function throws or rejects with; undefined without an error. */
export async function catchError(call: () => unknown): Promise<unknown> {
  try {
    await call();
    return undefined;
  } catch (error) {
    return error;
  }
}

const shown = (value: unknown): string => {
  if (typeof value === 'function') return 'a function';
  return value instanceof Object ? `${value.constructor.name} ${JSON.stringify(value)}` : String(value);
};

/**
 * Calls a function with values of all types for every option, and with values of all types in place of its
 * options.
 *
 * @returns the problems: an error without a code or without the path of the option, an invalid value that is
 *   accepted, or a valid value that is rejected
 */
export async function problemsOfOptions(probed: ProbedOptions): Promise<readonly string[]> {
  const { name, call, right = {}, accepts, last } = probed;
  const problems: string[] = [];
  const report = (what: string, value: unknown, found: string): void =>
    void problems.push(`${name}, ${what} of ${shown(value)}: ${found}`);
  for (const value of valuesOfAllTypes) {
    if (value instanceof Object && Object.getPrototypeOf(value) === Object.prototype) continue;
    const error = await catchError(() => call(value));
    if (!MtlError.isInstance(error) || !error.message.includes('the options of'))
      report('options', value, String(error));
  }
  for (const [path, isRight] of Object.entries(accepts)) {
    for (const value of valuesOfAllTypes) {
      const shouldTake = isRight(value);
      const isLast = path === last || path.startsWith(`${last}.`);
      // with a valid value of the last option, nothing would stop the function
      if (isLast && shouldTake) continue;
      const stopped = isLast ? right : { ...right, [last]: Symbol('stop') };
      const error = await catchError(() => call(withValue(stopped, path, value)));
      if (!MtlError.isInstance(error)) {
        report(path, value, String(error));
        continue;
      }
      const isRefused = mentions(error.message, path);
      const isStopped = !isLast && mentions(error.message, last);
      if (shouldTake ? !isStopped : !isRefused) report(path, value, error.message);
    }
  }
  return problems;
}

/** Returns whether a message begins with the path of an option, or of a member of it. */
const mentions = (message: string, path: string): boolean =>
  message.startsWith(path) && /^[ .[]/.test(message.slice(path.length));

/** Functions that return whether options of a kind accept a value, for `ProbedOptions`. */
export const takes = {
  text: (value: unknown) => typeof value === 'string' && value !== '',
  anyText: (value: unknown) => typeof value === 'string',
  number: (value: unknown) => typeof value === 'number' && !Number.isNaN(value),
  boolean: (value: unknown) => typeof value === 'boolean',
  function: (value: unknown) => typeof value === 'function',
  nothing: () => false,
  emptyArray: (value: unknown) => Array.isArray(value) && value.length === 0,
  arrayOfNumbers: (value: unknown) => Array.isArray(value) && value.every((each) => typeof each === 'number'),
  arrayOfTexts: (value: unknown) => Array.isArray(value) && value.every((each) => typeof each === 'string'),
  plainObject: (value: unknown) =>
    value instanceof Object && Object.getPrototypeOf(value) === Object.prototype,
  emptyObject: (value: unknown) => takes.plainObject(value) && Object.keys(value as object).length === 0,
  anyObject: (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value),
} as const;
