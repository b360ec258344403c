import { ConfigurationError } from '@mtl/errors';

/** The environment variables of a process: `process.env`, or a subset of its variables. */
export type Variables = Readonly<Record<string, string | undefined>>;

/** Creates the error for launcher variables that are incomplete or contradict each other. */
export function launchError(
  message: string,
  { expected, remedy }: { readonly expected?: string; readonly remedy: string },
): ConfigurationError {
  return new ConfigurationError('MTL_LAUNCH_ENVIRONMENT', message, {
    ...(expected === undefined ? {} : { expected }),
    remedy,
  });
}

const remedy = 'unset it, or start with mtl run, torchrun, srun or mpirun, which set it right';

/** Reads numbers from environment variables. An empty variable counts as not set. */
export class VariableReader {
  readonly #variables: Variables;

  constructor(variables: Variables) {
    this.#variables = variables;
  }

  text(name: string): string | undefined {
    const value = this.#variables[name]?.trim();
    return value === '' ? undefined : value;
  }

  has(name: string): boolean {
    return this.text(name) !== undefined;
  }

  /**
   * Reads an integer of at least `least`; undefined if the variable is not set.
   * @throws ConfigurationError MTL_LAUNCH_ENVIRONMENT for any other value.
   */
  count(name: string, least = 0): number | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    const number = Number(value);
    if (/^\d+$/.test(value) && Number.isSafeInteger(number) && number >= least) return number;
    throw launchError(`${name}=${value}`, { expected: `a whole number of ${least} or more`, remedy });
  }

  port(name: string): number | undefined {
    const port = this.count(name, 1);
    if (port === undefined || port <= 65535) return port;
    throw launchError(`${name}=${port}`, { expected: 'a port, 1 to 65535', remedy });
  }

  /** Reads an integer from the first variable in `names` that is set. */
  firstCount(names: readonly string[], least = 0): number | undefined {
    const name = names.find((each) => this.has(each));
    return name === undefined ? undefined : this.count(name, least);
  }
}
