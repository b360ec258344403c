import type { FlagName } from '../flag-schema.js';
import type { UnusableFlag } from '../unusable-flags-error.js';
import { megatronExpertFlags } from './megatron-expert-flags.js';
import type { MegatronFlag } from './megatron-flag.js';
import { megatronFlagFamilies } from './megatron-flag-families.js';
import { megatronKernelFlags } from './megatron-kernel-flags.js';
import { megatronModelFlags } from './megatron-model-flags.js';
import { megatronParallelFlags } from './megatron-parallel-flags.js';
import { megatronReportFlags } from './megatron-report-flags.js';
import { megatronTrainingFlags } from './megatron-training-flags.js';

/** What is known of Megatron-LM's flags that are not in the schema, by name. */
export const megatronFlags: Readonly<Record<string, MegatronFlag>> = {
  ...megatronModelFlags,
  ...megatronExpertFlags,
  ...megatronKernelFlags,
  ...megatronParallelFlags,
  ...megatronTrainingFlags,
  ...megatronReportFlags,
};

/** What is known about a flag that is not ours, by its name with dashes. */
export function findMegatronFlag(written: string): MegatronFlag | undefined {
  // --DDP-impl
  const name = written.toLowerCase();
  if (Object.hasOwn(megatronFlags, name)) return megatronFlags[name];
  const beginnings = Object.keys(megatronFlagFamilies).filter((beginning) => name.startsWith(beginning));
  const [longest] = beginnings.sort((a, b) => b.length - a.length);
  return longest === undefined ? undefined : megatronFlagFamilies[longest];
}

/**
 * Decides about a flag of Megatron-LM that is not in the schema.
 *
 * @returns the sentence to tell the user when it has no effect, or `MTL_FLAG_UNSUPPORTED` with the reason
 *   when leaving it out would change the training run.
 */
export function judgeMegatronFlag(options: {
  readonly name: string;
  readonly megatron: MegatronFlag;
  readonly values: readonly string[];
  readonly where: string;
  /** The values of other flags in the same place. */
  readonly valueOfFlag: (flag: FlagName) => unknown;
}): string | UnusableFlag {
  const { name, megatron, values, where, valueOfFlag } = options;
  const { what, why, instead, harmless, harmlessWith } = megatron;
  const written = [`--${name}`, ...values].join(' ');
  if (harmless === 'always') return `${written} ${where} has no effect: ${why}`;
  if (harmless?.includes(values.join(' ')))
    return `${written} ${where} has no effect: that is how it always is here`;
  if (harmlessWith !== undefined) {
    const { flag, values: meant } = harmlessWith;
    const value = valueOfFlag(flag);
    const because = harmlessWith.why ?? `--${flag} ${value} says the same`;
    if (value !== undefined && meant?.includes(value) !== false)
      return `${written} ${where} has no effect: ${because}`;
  }
  return {
    code: 'MTL_FLAG_UNSUPPORTED',
    written,
    problem: `(${what} in Megatron-LM) is not supported: ${why}`,
    expected: harmless === undefined || harmless.length === 0 ? undefined : harmless.join(' or '),
    remedy: instead ?? 'leave it out',
    details: { flag: name, values },
  };
}
