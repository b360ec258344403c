import { createContext, Script } from 'node:vm';

// only a time limit of node:vm can interrupt a JavaScript regular expression that backtracks; the context for
// it is created at the first bounded search
let context: { run: (() => unknown) | undefined } | undefined;
let script: Script | undefined;

/**
 * The time limit of a search, in milliseconds: `start`, plus `perUnit` for each UTF-16 code unit of the text.
 * Tests lower both.
 */
export const searchLimits = { start: 1000, perUnit: 0.01 };

/** The error for a search that took longer than its limit. */
export class SlowPatternError extends Error {
  override readonly name = 'SlowPatternError';
}

/**
 * Runs a search in a text with a time limit: a second, plus a hundredth of a millisecond for each UTF-16 code
 * unit of the text. Ordinary searches take a thousandth of this time. A search that exceeds the limit is run
 * once more, because a suspended process exceeds the limit without computing.
 *
 * @throws SlowPatternError if both attempts took too long
 */
export function runBounded<T>(text: string, search: () => T): T {
  const timeout = Math.ceil(searchLimits.start + searchLimits.perUnit * text.length);
  context ??= createContext({ run: undefined }) as NonNullable<typeof context>;
  script ??= new Script('run()');
  for (let isLast = false; ; isLast = true) {
    context.run = search;
    try {
      return script.runInContext(context, { timeout }) as T;
    } catch (cause) {
      if ((cause as { code?: unknown } | null)?.code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw cause;
      if (isLast) {
        throw new SlowPatternError(
          `it backtracks for more than ${timeout} ms in a text of ${text.length} characters`,
        );
      }
    } finally {
      context.run = undefined;
    }
  }
}
