/** A flag of Megatron-LM that this project has no use for, or no code for yet. */
export interface MegatronFlag {
  /** A few words about the flag's function in Megatron-LM. */
  readonly what: string;
  /** Why it is refused, or why leaving it out changes nothing. */
  readonly why: string;
  /** The advice for a user who needs the flag's function. */
  readonly instead?: string;
  /**
   * States whether the flag is accepted without effect: `always`, or only with values that describe the
   * behaviour here. Absent for a flag that is always rejected.
   */
  readonly harmless?: 'always' | readonly string[];
  /** A flag of the schema next to which it changes nothing. */
  readonly harmlessWith?: {
    readonly flag: string;
    /** The values of that flag for which this holds. Default: all. */
    readonly values?: readonly unknown[];
    /** The reason. Default: the other flag has the same meaning. */
    readonly why?: string;
  };
  /** Values that follow it; `many` up to the next flag. Matters only where it may stay. */
  readonly takes: 'nothing' | 'one' | 'many';
}

/** Makes entries for flags that share the reason why they are refused. */
export function refused(
  why: string,
  instead: string,
  flags: Readonly<Record<string, string>>,
): Record<string, MegatronFlag> {
  return Object.fromEntries(
    Object.entries(flags).map(([name, what]) => [name, { what, why, instead, takes: 'many' } as const]),
  );
}

/** Switches that change nothing here, for one reason. */
export function idle(why: string, flags: Readonly<Record<string, string>>): Record<string, MegatronFlag> {
  return Object.fromEntries(
    Object.entries(flags).map(([name, what]) => [
      name,
      { what, why, harmless: 'always', takes: 'nothing' } as const,
    ]),
  );
}

/** Settings with a value that change nothing here, for one reason. */
export function idleSetting(
  why: string,
  flags: Readonly<Record<string, string>>,
): Record<string, MegatronFlag> {
  return Object.fromEntries(
    Object.entries(flags).map(([name, what]) => [
      name,
      { what, why, harmless: 'always', takes: 'one' } as const,
    ]),
  );
}

/** Makes the entry of a setting that is accepted only with values that describe the behaviour here. */
export function only(
  values: readonly string[],
  what: string,
  why: string,
  instead = 'leave it out',
): MegatronFlag {
  return { what, why, instead, harmless: values, takes: 'one' };
}
