import { ConfigurationError } from '@mtl/errors';

/** A flag, on a command line or in a file, with which the program cannot run. */
export interface UnusableFlag {
  readonly code: 'MTL_FLAG_UNSUPPORTED' | 'MTL_FLAG_UNKNOWN' | 'MTL_CONFIG_KEY';
  /** The flag with its values, as the user wrote it: `--num-experts 8`. */
  readonly written: string;
  /** The problem with the flag, as the end of a sentence, such as `is not a flag`. */
  readonly problem: string;
  readonly expected?: string | undefined;
  readonly remedy: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/**
 * Makes one error for all unusable flags of a source, so that the user can correct all flags together. The
 * error has the code of the first flag.
 *
 * @param where the source: `on the command line`, `in run.yaml`
 */
export function unusableFlagsError(
  [first, ...others]: readonly [UnusableFlag, ...UnusableFlag[]],
  where: string,
): ConfigurationError {
  if (others.length === 0) {
    const { code, written, problem, expected, remedy, details } = first;
    // the place is left out of the message, because unknown flags come only from the command line
    const place = code === 'MTL_FLAG_UNKNOWN' ? '' : ` ${where}`;
    return new ConfigurationError(code, `${written}${place} ${problem}`, {
      ...(expected === undefined ? {} : { expected }),
      remedy,
      details,
    });
  }
  const flags = [first, ...others];
  const lines = flags.map(({ written, problem, expected, remedy }) => {
    const wanted = expected === undefined ? '' : `; expected ${expected}`;
    return `\n  ${written} ${problem}${wanted}; ${remedy}`;
  });
  return new ConfigurationError(
    first.code,
    `${flags.length} flags ${where} cannot be used:${lines.join('')}`,
    {
      remedy: 'change or leave out each flag',
      details: { flags: flags.map(({ code, details }) => ({ code, ...details })) },
    },
  );
}
