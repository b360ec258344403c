import { MtlError } from './mtl-error.js';

/**
 * The text a program prints for an error: `error[CODE]: what; expected ...` and the remedy on a second line.
 * Errors of other families are printed with their message only; pass `debug` for the stack.
 */
export function formatError(error: unknown, { debug = false }: { debug?: boolean } = {}): string {
  const stack = debug && error instanceof Error ? `\n${error.stack ?? ''}` : '';
  if (!MtlError.isInstance(error)) {
    const message = error instanceof Error ? error.message : String(error);
    return `error[MTL_UNEXPECTED]: ${message}${debug ? stack : '\n  --debug shows where it came from'}`;
  }
  const expected = error.expected === undefined ? '' : `; expected ${error.expected}`;
  const remedy = error.remedy === undefined ? '' : `\n  remedy: ${error.remedy}`;
  return `error[${error.code}]: ${error.message}${expected}${remedy}${stack}`;
}

/** The exit status of a program that ends with `error`: 2 for wrong input, 1 for everything else. */
export function exitCodeOf(error: unknown): 1 | 2 {
  return MtlError.isInstance(error) ? error.exitCode : 1;
}
