import { type Runtime, TemplateError } from './runtime.js';
import { type CallArguments, typeName, type Value } from './values.js';

/**
 * Returns the arguments of a call in the order of the function's parameters; undefined for each missing
 * argument.
 *
 * @param required the number of parameters that must be given
 */
export function boundArguments(
  callee: string,
  { positional, named }: CallArguments,
  parameters: readonly string[] = [],
  required = 0,
): (Value | undefined)[] {
  if (positional.length > parameters.length) {
    throw new TemplateError(
      `${callee}() takes at most ${parameters.length} arguments (${positional.length} given)`,
    );
  }
  const bound: (Value | undefined)[] = parameters.map((_, index) => positional[index]);
  for (const [name, value] of named) {
    const index = parameters.indexOf(name);
    if (index < 0) throw new TemplateError(`${callee}() got an unexpected keyword argument '${name}'`);
    if (bound[index] !== undefined)
      throw new TemplateError(`${callee}() got multiple values for argument '${name}'`);
    bound[index] = value;
  }
  const missing = parameters.slice(0, required).find((_, index) => bound[index] === undefined);
  if (missing !== undefined) throw new TemplateError(`${callee}() missing required argument: '${missing}'`);
  return bound;
}

/** Returns an argument that must be an int, or `fallback` if the argument is missing. */
export function integerArgument(callee: string, value: Value | undefined, fallback: number): number {
  if (value === undefined) return fallback;
  if (typeof value === 'boolean') return Number(value);
  if (typeof value === 'bigint') return Number(value);
  throw new TemplateError(`${callee}(): '${typeName(value)}' object cannot be interpreted as an integer`);
}

/** A filter: `value | name(args)`. */
export type Filter = (value: Value, args: CallArguments, runtime: Runtime) => Value;
