import { UsageError } from '@mtl/errors';

/** Describes a value that a JavaScript caller has passed, for an error message. */
export function describeOperand(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (typeof value === 'string') return `the string '${value.slice(0, 40)}'`;
  if (typeof value !== 'object') return `the ${typeof value} ${String(value).slice(0, 40)}`;
  return Array.isArray(value) ? 'an array' : `an object of ${value.constructor?.name ?? 'no class'}`;
}

const isOptions = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;

/**
 * Describes the arguments of a call for an error message. If an argument is an options object, describes each
 * of its options.
 */
function describeArguments(values: readonly unknown[]): string {
  const described = values.flatMap((value, index) =>
    isOptions(value)
      ? Object.entries(value).map(([name, each]) => `${name} is ${describeOperand(each)}`)
      : [`argument ${index + 1} is ${describeOperand(value)}`],
  );
  return described.join(', ') || 'no operands given';
}

/**
 * Returns an operation that reports operands of the wrong type, because nothing checks the types in
 * JavaScript callers. For authors of operations.
 *
 * @param name the operation's name in the error
 * @returns a function like `body` that converts TypeErrors to UsageError `MTL_ARGUMENT` with a description of
 *   the operands
 */
export function checkedOperation<Values extends readonly unknown[], Result>(
  name: string,
  body: (...values: Values) => Result,
): (...values: Values) => Result {
  return (...values) => {
    try {
      return body(...values);
    } catch (cause) {
      if (!(cause instanceof TypeError)) throw cause;
      throw new UsageError('MTL_ARGUMENT', `${name}: ${describeArguments(values)}`, {
        expected: 'one object with the operands by name, of the types that the operation declares',
        remedy: 'check the names of the options and what they are; TypeScript finds such calls',
        cause,
      });
    }
  };
}
