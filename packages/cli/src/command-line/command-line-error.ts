import { ConfigurationError } from '@mtl/errors';
import type { Command, CommanderError } from 'commander';
import { pathOf } from './path-of.js';

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

/** The coded error for what commander found wrong with a command line. */
export function commandLineError(error: CommanderError, at: Command): ConfigurationError {
  const command = pathOf(at);
  if (error.code === 'commander.help') {
    const names = at.commands.map((known) => known.name());
    return new ConfigurationError('MTL_COMMAND_MISSING', `${command} does nothing without a subcommand`, {
      expected: `${command} ${names.join(' | ')}`,
      remedy: `${command} --help describes each of them`,
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
