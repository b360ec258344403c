import { ConfigurationError } from '@mtl/errors';
import type { ForeignFlag } from './foreign-flag.js';
import { foreignFlagFamilies } from './foreign-flag-families.js';
import { foreignKernelFlags } from './foreign-kernel-flags.js';
import { foreignModelFlags } from './foreign-model-flags.js';
import { foreignParallelFlags } from './foreign-parallel-flags.js';
import { foreignReportFlags } from './foreign-report-flags.js';
import { foreignTrainingFlags } from './foreign-training-flags.js';

/** What is known of Megatron-LM's flags that are not in the schema, by name. */
export const foreignFlags: Readonly<Record<string, ForeignFlag>> = {
  ...foreignModelFlags,
  ...foreignKernelFlags,
  ...foreignParallelFlags,
  ...foreignTrainingFlags,
  ...foreignReportFlags,
};

/** What is known about a flag that is not ours, by its name with dashes. */
export function findForeignFlag(written: string): ForeignFlag | undefined {
  // --DDP-impl
  const name = written.toLowerCase();
  if (Object.hasOwn(foreignFlags, name)) return foreignFlags[name];
  const beginnings = Object.keys(foreignFlagFamilies).filter((beginning) => name.startsWith(beginning));
  const [longest] = beginnings.sort((a, b) => b.length - a.length);
  return longest === undefined ? undefined : foreignFlagFamilies[longest];
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
