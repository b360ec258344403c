import { ConfigurationError, nearestName } from '@mtl/errors';
import type { Command } from 'commander';
import { pathOf } from './path-of.js';

/**
 * The command whose help is asked for: `program` itself without any word, or the command that `help NAME...`,
 * behind the names of commands around it, asks about. Undefined when the words ask for no help, for that of
 * `program` itself, or with `--help` for that of a command there is.
 *
 * @throws ConfigurationError MTL_COMMAND_UNKNOWN
 */
export function commandOfHelp(program: Command, words: readonly string[]): Command | undefined {
  if (words.length === 0) return program;
  if (words.some((word) => word === '--help' || word === '-h')) checkCommands(program, words);
  const at = words.indexOf('help');
  const names = words.slice(at + 1);
  if (at < 0 || names.length === 0 || words.some((word) => word.startsWith('-'))) return undefined;
  let command = program;
  for (const name of words.slice(0, at)) {
    const next = command.commands.find((known) => known.name() === name);
    // `help` is an argument of that command, or of none
    if (next === undefined || next.commands.length === 0) return undefined;
    command = next;
  }
  for (const name of names) command = subcommandOf(command, name);
  return command;
}

/** Of a name that it does not know, commander shows the help of the command around it. */
function checkCommands(program: Command, words: readonly string[]): void {
  let command = program;
  for (const word of words) {
    if (word === 'help' || word.startsWith('-') || command.commands.length === 0) return;
    command = subcommandOf(command, word);
  }
}

function subcommandOf(command: Command, name: string): Command {
  const found = command.commands.find((known) => known.name() === name);
  if (found !== undefined) return found;
  const known = command.commands.map((each) => each.name());
  throw new ConfigurationError('MTL_COMMAND_UNKNOWN', `${pathOf(command)}: unknown command '${name}'`, {
    expected: nearestName(name, known) ?? (known.length === 0 ? 'no more words' : known.join(', ')),
    remedy: `${pathOf(command)} --help lists its commands and flags`,
  });
}
