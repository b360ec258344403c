import { isFlagName } from '@mtl/configuration/flags';
import { ConfigurationError, listedNames } from '@mtl/errors';
import type { Argument, Command, CommanderError, Option } from 'commander';

const codes: Readonly<Record<string, `MTL_${string}`>> = {
  'commander.unknownOption': 'MTL_FLAG_UNKNOWN',
  'commander.unknownCommand': 'MTL_COMMAND_UNKNOWN',
  'commander.optionMissingArgument': 'MTL_FLAG_VALUE_MISSING',
  'commander.missingMandatoryOptionValue': 'MTL_FLAG_REQUIRED',
  'commander.missingArgument': 'MTL_ARGUMENT_MISSING',
  'commander.excessArguments': 'MTL_ARGUMENT_EXCESS',
  'commander.conflictingOption': 'MTL_FLAG_CONFLICT',
  'commander.invalidArgument': 'MTL_FLAG_VALUE',
};

/** Converts an error that commander reports about a command line to a coded error. */
export function commandLineError(error: CommanderError, at: Command): ConfigurationError {
  const command = formatCommandPath(at);
  if (error.code === 'commander.help') {
    const names = at.commands.map((known) => known.name());
    return new ConfigurationError('MTL_COMMAND_MISSING', `${command} does nothing without a subcommand`, {
      expected: `${command} ${names.join(' | ')}`,
      remedy: `${command} --help describes each`,
    });
  }
  const [what = '', suggestion = ''] = error.message.replace(/^error: /, '').split('\n');
  const near = /Did you mean (?:one of )?(.*)\?\)/.exec(suggestion)?.[1];
  return new ConfigurationError(codes[error.code] ?? 'MTL_COMMAND_LINE', `${command}: ${what}`, {
    ...(near === undefined ? {} : { expected: near }),
    remedy: `${command} --help lists its commands and flags`,
    cause: error,
  });
}

/** A flag or an operand that a command line lacks. */
export interface MissingWord {
  /** The flag or operand, with its alternatives, such as `--load (or --load-hf)` or `PREFIX`. */
  readonly name: string;
  /** The flag or operand with a placeholder for its value, such as `--load DIR` or `PREFIX...`. */
  readonly usage: string;
}

/** Describes a mandatory option that was not given. */
export function missingOption(option: Option): MissingWord {
  const value = option.argChoices?.join('|');
  const usage =
    value === undefined
      ? option.flags.replace(/<(.+)>/, (_, name: string) => name.toUpperCase())
      : `${option.long} ${value}`;
  return { name: option.long!, usage };
}

/** Describes a mandatory operand that was not given. */
export function missingArgument(argument: Argument): MissingWord {
  const name = argument.name().toUpperCase();
  const usage = argument.argChoices?.join('|') ?? name;
  return { name, usage: argument.variadic ? `${usage}...` : usage };
}

/** Returns one error that names all missing flags and operands. */
export function missingWordsError(
  command: Command,
  missing: readonly [MissingWord, ...MissingWord[]],
): ConfigurationError {
  const path = formatCommandPath(command);
  const names = missing.map(({ name }) => name);
  const isFlag = names.some((name) => name.startsWith('--'));
  const [verb, them] = names.length === 1 ? ['is', 'it'] : ['are', 'them'];
  return new ConfigurationError(
    isFlag ? 'MTL_FLAG_REQUIRED' : 'MTL_ARGUMENT_MISSING',
    `${path}: ${listedNames(names)} ${verb} missing`,
    {
      expected: [path, ...missing.map(({ usage }) => usage)].join(' '),
      remedy: `pass ${them}; ${path} --help describes all flags`,
      details: { missing: names },
    },
  );
}

/**
 * Rejects options of the command itself after `--`, where the flags of the training run begin.
 *
 * @throws ConfigurationError `MTL_FLAG_ARGUMENT`
 */
export function refuseOwnOptions(flags: readonly string[], command: Command): void {
  const own = flags
    .map((word) => word.split('=', 1)[0]!)
    .filter((word) => word.startsWith('--') && word !== '--debug' && !isFlagName(word.slice(2)))
    .find((word) => command.options.some(({ long }) => long === word));
  if (own === undefined) return;
  const path = formatCommandPath(command);
  throw new ConfigurationError('MTL_FLAG_ARGUMENT', `${own} is a flag of ${path}, not of the training run`, {
    expected: `${path} ${own} ... -- FLAGS`,
    remedy: `put it before --; ${path} --help lists the flags of ${path}`,
  });
}

/** Returns the full name of a command, such as `mtl data merge`. */
export function formatCommandPath(command: Command): string {
  return command.parent === null ? command.name() : `${formatCommandPath(command.parent)} ${command.name()}`;
}
