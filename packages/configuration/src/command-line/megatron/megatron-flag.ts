/** A flag of Megatron-LM that has no purpose in this project, or is not implemented yet. */
export interface MegatronFlag {
  /** A few words about the flag's function in Megatron-LM. */
  readonly what: string;
  /** The reason why the flag is rejected, or why leaving it out changes nothing. */
  readonly why: string;
  /** The advice for a user who needs the flag's function. */
  readonly instead?: string;
  /**
   * States whether the flag is accepted without effect: `always`, or only with values that describe the
   * behaviour here. Absent for a flag that is always rejected.
   */
  readonly harmless?: 'always' | readonly string[];
  /** Another flag, in the schema, that makes this flag harmless if both are given. */
  readonly harmlessWith?: {
    readonly flag: string;
    /** The values of the other flag for which this is true. Default: all values. */
    readonly values?: readonly unknown[];
    /** The reason. Default: the other flag has the same meaning. */
    readonly why?: string;
  };
  /**
   * The number of values that follow the flag; `many`: all up to the next flag. It matters only if the flag
   * may be accepted.
   */
  readonly takes: 'nothing' | 'one' | 'many';
}

/** Makes entries for flags that are rejected for the same reason. */
export function refused(
  why: string,
  instead: string,
  flags: Readonly<Record<string, string>>,
): Record<string, MegatronFlag> {
  return Object.fromEntries(
    Object.entries(flags).map(([name, what]) => [name, { what, why, instead, takes: 'many' } as const]),
  );
}

/** Makes entries for switches that have no effect here, for one reason. */
export function idle(why: string, flags: Readonly<Record<string, string>>): Record<string, MegatronFlag> {
  return Object.fromEntries(
    Object.entries(flags).map(([name, what]) => [
      name,
      { what, why, harmless: 'always', takes: 'nothing' } as const,
    ]),
  );
}

/** Makes entries for settings with a value that have no effect here, for one reason. */
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
