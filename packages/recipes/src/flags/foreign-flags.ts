import { ConfigurationError } from '@mtl/errors';
import { foreignFlagTable } from './foreign-flag-table.js';

/** A flag of Megatron-LM that this project has no use for, or no code for yet. */
export interface ForeignFlag {
  /** What it is there, in a few words. */
  readonly what: string;
  /** Why it is refused, or why leaving it out changes nothing. */
  readonly why: string;
  /** What to do instead. */
  readonly instead?: string;
  /**
   * Whether it may stand there without effect: `always`, or only with values that say what happens here anyway.
   * Left out for a flag that is always refused.
   */
  readonly harmless?: 'always' | readonly string[];
  /** Values that follow it; `many` up to the next flag. Matters only where it may stay. */
  readonly takes: 'nothing' | 'one' | 'many';
}

/** What is known about a flag that is not ours, by its name with dashes. */
export function findForeignFlag(name: string): ForeignFlag | undefined {
  return Object.hasOwn(foreignFlagTable, name) ? foreignFlagTable[name] : undefined;
}

/**
 * Decides about a foreign flag that was given.
 *
 * @returns the sentence to tell the user when it has no effect.
 * @throws ConfigurationError `MTL_FLAG_UNSUPPORTED` when leaving it out would change the training.
 */
export function judgeForeignFlag(options: {
  readonly name: string;
  readonly foreign: ForeignFlag;
  readonly values: readonly string[];
  readonly where: string;
}): string {
  const { name, foreign, values, where } = options;
  const { what, why, instead, harmless } = foreign;
  const written = [`--${name}`, ...values].join(' ');
  if (harmless === 'always') return `${written} ${where} has no effect: ${why}`;
  if (harmless?.includes(values.join(' ')))
    return `${written} ${where} has no effect: that is how it always is here`;
  throw new ConfigurationError(
    'MTL_FLAG_UNSUPPORTED',
    `${written} ${where} (${what} in Megatron-LM) is not supported: ${why}`,
    {
      ...(harmless === undefined || harmless.length === 0 ? {} : { expected: harmless.join(' or ') }),
      remedy: instead ?? 'leave it out',
      details: { flag: name, values },
    },
  );
}
