import { type FlagName, factsOf } from './flag-schema.js';

/** How help shows a flag. */
export interface FlagDescription {
  /** The placeholder of its value; empty for a switch. */
  readonly placeholder: string;
  /** What it does, its choices where they are many, and its default. */
  readonly text: string;
}

/** The help of a flag, for any command that has it. */
export function describeFlag(name: FlagName): FlagDescription {
  const { description, kind, placeholder, default: value, defaultText } = factsOf(name);
  const isLong = kind === 'choice' && placeholder.length > 24;
  const choices = isLong ? ` One of ${placeholder.replaceAll('|', ', ')}.` : '';
  const shown = defaultText ?? (kind === 'boolean' || value === undefined ? undefined : formatDefault(value));
  return {
    placeholder: isLong ? 'STYLE' : placeholder,
    text: `${description}${choices}${shown === undefined ? '' : ` [${shown}]`}`,
  };
}

function formatDefault(value: unknown): string {
  return value === 2 ** 32 ? '2^32' : String(value);
}
