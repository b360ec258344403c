import type { FlagName } from '../../schema/flag-schema.js';
import type { UnusableFlag } from '../unusable-flags.js';
import { unsupportedFlags } from './unsupported-flags.js';

/** A flag of Megatron-LM that has no purpose here, or is not implemented. */
export interface MegatronFlag {
  /** The flag's function in Megatron-LM, in a few words. */
  readonly what: string;
  /** The reason why the flag is rejected, or why the program can ignore it. */
  readonly why: string;
  /** Advice for a user who needs the flag's function; undefined for a flag that is always accepted. */
  readonly remedy: string | undefined;
  /**
   * Values for which a flag is accepted, although the flag is otherwise rejected, because they describe what
   * this project always does.
   */
  readonly harmless: readonly string[];
  /** The minimum and the maximum number of values; undefined for a flag that is always rejected. */
  readonly takes: readonly [least: number, most: number] | undefined;
}

/** Flags that have no effect if a certain flag of the schema has one of the listed values. */
const harmlessWith: Readonly<
  Record<string, { readonly flag: FlagName; readonly values?: readonly unknown[]; readonly why?: string }>
> = {
  'no-position-embedding': { flag: 'position-embedding-type', values: ['rope', 'yarn', 'none'] },
  'tiktoken-pattern': {
    flag: 'tokenizer-type',
    why: 'the tokenizer that --tokenizer-type names has no such pattern',
  },
};

/** Parses the table of unsupported flags, and keeps its order. The name of a prefix keeps its `*`. */
function readTable(table: string): ReadonlyMap<string, MegatronFlag> {
  const flags = new Map<string, MegatronFlag>();
  let [why, advice] = ['', ''];
  for (const line of table.split('\n')) {
    const [left, right] = line.trim().split(' | ') as [string, string];
    if (right === undefined) continue;
    if (!line.startsWith(' ')) {
      [why, advice] = [left, right];
      continue;
    }
    const remedy = advice === 'no effect' ? undefined : advice;
    for (const written of left.split(' ')) {
      const [name, values] = written.split('=') as [string, string | undefined];
      const isSwitch = values === undefined && (remedy === undefined || Object.hasOwn(harmlessWith, name));
      const withValues = values === '...' ? ([1, Number.POSITIVE_INFINITY] as const) : ([1, 1] as const);
      flags.set(name, {
        what: right,
        why,
        remedy,
        harmless: remedy === undefined || !values ? [] : values.split('/'),
        takes: isSwitch ? [0, 0] : values === undefined ? undefined : withValues,
      });
    }
  }
  return flags;
}

/**
 * All known Megatron-LM flags that are not in the schema, keyed by name. A name that ends with `*` is a
 * prefix.
 */
export const megatronFlags: ReadonlyMap<string, MegatronFlag> = readTable(unsupportedFlags);

const prefixes = [...megatronFlags.keys()]
  .filter((name) => name.endsWith('*'))
  .map((name) => name.slice(0, -1))
  .sort((a, b) => b.length - a.length);

/** Returns the entry for a flag of Megatron-LM, given its name with dashes; undefined for an unknown flag. */
export function findMegatronFlag(written: string): MegatronFlag | undefined {
  // some of Megatron-LM's flags have capital letters: --DDP-impl
  const name = written.toLowerCase();
  return (
    megatronFlags.get(name) ?? megatronFlags.get(`${prefixes.find((prefix) => name.startsWith(prefix))}*`)
  );
}

/**
 * Decides whether the program can ignore a flag of Megatron-LM that is not in the schema.
 *
 * @returns a message for the user if the flag has no effect; or the unusable flag with code
 *   `MTL_FLAG_UNSUPPORTED` and the reason, if ignoring it would change the training run
 */
export function judgeMegatronFlag(options: {
  readonly name: string;
  readonly megatron: MegatronFlag;
  readonly values: readonly string[];
  readonly where: string;
  /** Returns the value of a flag in the same command line or file. */
  readonly valueOfFlag: (flag: FlagName) => unknown;
}): string | UnusableFlag {
  const { name, megatron, values, where, valueOfFlag } = options;
  const { what, why, remedy, harmless } = megatron;
  const written = [`--${name}`, ...values].join(' ');
  if (remedy === undefined) return `${written} ${where} has no effect: ${why}`;
  if (harmless.includes(values.join(' ')))
    return `${written} ${where} has no effect: that is how it always is here`;
  const other = harmlessWith[name.toLowerCase()];
  const value = other && valueOfFlag(other.flag);
  if (value !== undefined && other?.values?.includes(value) !== false) {
    return `${written} ${where} has no effect: ${other?.why ?? `--${other?.flag} ${value} says the same`}`;
  }
  return {
    code: 'MTL_FLAG_UNSUPPORTED',
    written,
    problem: `(${what} in Megatron-LM) is not supported: ${why}`,
    expected: harmless.length === 0 ? undefined : harmless.join(' or '),
    remedy,
    details: { flag: name, values },
  };
}
