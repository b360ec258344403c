import { ConfigurationError, chooseExitCode, formatError, nearestName } from '@mtl/errors';
import { checkArgument, wordsOption } from '@mtl/errors/options';
import { type Command, CommanderError } from 'commander';
import { formatCommandPath } from './command-line/command-line-error.js';
import { withDashes } from './command-line/with-dashes.js';
import { programOfWords } from './program-of-words.js';
import { statusOfInterruption } from './terminal/interruption.js';

/**
 * Runs one command line to its end. Results go to standard output; an error goes to standard error, as one
 * coded message, and decides the exit status. The exit status of this process stays as it was. Command lines
 * run one after the other, since they share the output and the exit status of the process.
 *
 * @param argv arguments without the program's name: `process.argv.slice(2)`
 * @returns the exit status: 0, 2 for wrong input, 130 or 143 when SIGINT or SIGTERM stopped a command that
 *   cleans up, 1 for every other failure, and for a failed check such as `plan --check`
 * @throws ConfigurationError MTL_OPTION if `argv` is no array of texts
 */
export async function runMtl(argv: readonly string[]): Promise<number> {
  checkArgument(argv, { name: 'argv', check: wordsOption });
  // commands that end without an error state their status there, and so does the loss of the output
  const before = process.exitCode;
  process.exitCode = undefined;
  try {
    const status = await runCommand(argv);
    return status === 0 ? Number(process.exitCode ?? 0) : status;
  } finally {
    process.exitCode = before;
  }
}

/** Returns the exit status that errors decide. */
async function runCommand(argv: readonly string[]): Promise<number> {
  try {
    const words = argv[0] === 'run' ? ['run', ...withDashes(argv.slice(1))] : [...argv];
    const program = await programOfWords(words);
    const explained = commandOfHelp(program, words);
    if (explained === undefined) await program.parseAsync(words, { from: 'user' });
    else explained.outputHelp();
    return 0;
  } catch (error) {
    // Help and version end this way.
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    process.stderr.write(`${formatError(error, { debug: argv.includes('--debug') })}\n`);
    return statusOfInterruption(error) ?? chooseExitCode(error);
  }
}

/**
 * Returns the command whose help the user requests: `program` itself without any word, or the command that
 * `help NAME...`, after the names of its parent commands, asks about. Undefined when the words ask for no
 * help, for the help of `program` itself, or with `--help` for an existing command.
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
  for (const name of names) command = findSubcommand(command, name);
  return command;
}

/** Refuses an unknown name; commander would show the help of the parent command. */
function checkCommands(program: Command, words: readonly string[]): void {
  let command = program;
  for (const word of words) {
    if (word === 'help' || word.startsWith('-') || command.commands.length === 0) return;
    command = findSubcommand(command, word);
  }
}

function findSubcommand(command: Command, name: string): Command {
  const found = command.commands.find((known) => known.name() === name);
  if (found !== undefined) return found;
  const known = command.commands.map((each) => each.name());
  throw new ConfigurationError(
    'MTL_COMMAND_UNKNOWN',
    `${formatCommandPath(command)}: unknown command '${name}'`,
    {
      expected: nearestName(name, known) ?? (known.length === 0 ? 'no more words' : known.join(', ')),
      remedy: `${formatCommandPath(command)} --help lists its commands and flags`,
    },
  );
}
