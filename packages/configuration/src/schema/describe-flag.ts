import * as z from 'zod';
import { flagFacts, takesSeveral } from '../flags/flag-kinds.js';
import { type FlagName, findSchema } from './flag-schema.js';

/** The parts of a flag's help. */
export interface FlagDescription {
  /** The placeholder of the flag's value; empty for a switch. */
  readonly placeholder: string;
  /** The flag's function and default. The text lists the choices if they do not fit into the placeholder. */
  readonly text: string;
  /** True if the flag takes a list of values. */
  readonly takesSeveral: boolean;
  /** The names that the flag accepts; empty if it also accepts other values. */
  readonly choices: readonly string[];
}

/** Returns the help of a flag of a training run. */
export const describeFlag = (name: FlagName): FlagDescription => describeSchema(findSchema(name));

/** Returns the help of a flag, given the flag's schema in a command. */
export function describeSchema(schema: z.ZodType): FlagDescription {
  const facts = flagFacts.get(schema)!;
  const { description, kind, placeholder, default: value, defaultText } = facts;
  const isLong = kind === 'choice' && placeholder.length > 24;
  const names = listChoices(schema);
  const choices =
    kind === 'choices'
      ? ` One or more of ${names.join(', ')}.`
      : isLong
        ? ` One of ${placeholder.replaceAll('|', ', ')}.`
        : '';
  const shown = defaultText ?? (kind === 'boolean' || value === undefined ? undefined : formatDefault(value));
  return {
    placeholder: isLong ? 'STYLE' : placeholder,
    takesSeveral: takesSeveral(facts),
    choices: names,
    text: `${description}${choices}${shown === undefined ? '' : ` [${shown}]`}`,
  };
}

/** Returns the default of a flag; undefined if the default depends on other flags. */
export const defaultOfSchema = (schema: z.ZodType): unknown => flagFacts.get(schema)!.default;

/** Returns the names that a flag accepts; empty if it also accepts other values. */
function listChoices(schema: z.ZodType): readonly string[] {
  const { kind } = flagFacts.get(schema)!;
  if (kind !== 'choice' && kind !== 'choices') return [];
  const json = z.toJSONSchema(schema) as NamesOfSchema & { readonly items?: NamesOfSchema };
  return json.enum ?? json.items?.enum ?? [];
}

interface NamesOfSchema {
  readonly enum?: readonly string[];
}

function formatDefault(value: unknown): string {
  return value === 2 ** 32 ? '2^32' : String(value);
}
