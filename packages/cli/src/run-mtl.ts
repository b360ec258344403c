import { ConfigurationError, chooseExitCode, formatError, nearestName } from '@mtl/errors';
import { checkArgument, wordsOption } from '@mtl/errors/options';
import { type Command, CommanderError } from 'commander';
import { formatCommandPath } from './command-line/command-line-error.js';
import { withDashes } from './command-line/with-dashes.js';
import { programOfWords } from './program-of-words.js';
import { statusOfInterruption } from './terminal/interruption.js';

/**
 * Runs a command line until it ends. Results are written to standard output. An error is written to standard
 * error as one coded message, and determines the returned exit status. The exit code of this process does not
 * change. Several command lines must not run at the same time, because they share the output and the exit
 * code of the process.
 *
 * @param argv arguments without the program's name: `process.argv.slice(2)`
 * @returns the exit status: 0, 2 for wrong input, 130 or 143 when SIGINT or SIGTERM ended a command that
 *   cleans up, 1 for every other failure, and for a failed check such as `plan --check`
 * @throws ConfigurationError MTL_OPTION if `argv` is not an array of strings
 */
export async function runMtl(argv: readonly string[]): Promise<number> {
  checkArgument(argv, { name: 'argv', check: wordsOption });
  // a command that ends without an error may set process.exitCode, and the loss of the output sets it too
  const before = process.exitCode;
  process.exitCode = undefined;
  try {
    const status = await runCommand(argv);
    return status === 0 ? Number(process.exitCode ?? 0) : status;
  } finally {
    process.exitCode = before;
  }
}

/** Runs the command. If it fails, prints the error and returns the exit status for it. */
async function runCommand(argv: readonly string[]): Promise<number> {
  try {
    const words = argv[0] === 'run' ? ['run', ...withDashes(argv.slice(1))] : [...argv];
    const program = await programOfWords(words);
    const explained = commandOfHelp(program, words);
    if (explained === undefined) await program.parseAsync(words, { from: 'user' });
    else explained.outputHelp();
    return 0;
  } catch (error) {
    // Commander throws this error after it has printed the help or the version
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    process.stderr.write(`${formatError(error, { debug: argv.includes('--debug') })}\n`);
    return statusOfInterruption(error) ?? chooseExitCode(error);
  }
}

/**
 * Returns the command for which the words request help: `program` itself without words, or the command in
 * `help NAME...`, which may follow the names of parent commands. Returns undefined if the words request no
 * help, the help of `program`, or help with `--help` for an existing command.
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
    // here, `help` is an argument of a command, and not a request for help
    if (next === undefined || next.commands.length === 0) return undefined;
    command = next;
  }
  for (const name of names) command = findSubcommand(command, name);
  return command;
}

/** Rejects an unknown name of a command, for which commander would print the help of the parent command. */
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
