import { exitCodeOf, formatError } from '@mtl/errors';
import { CommanderError } from 'commander';
import { commandOfHelp } from './command-line/command-of-help.js';
import { withDashes } from './commands/run/run.js';
import { createProgram } from './create-program.js';
import { Interruption } from './terminal/interruption.js';

/**
 * Runs one command line to its end. Results go to standard output; an error goes to standard error, as one
 * coded message, and decides the exit status.
 *
 * @param argv arguments without the program's name: `process.argv.slice(2)`
 * @returns the exit status: 0, 2 for wrong input, 130 or 143 when SIGINT or SIGTERM stopped a command that
 *   cleans up, 1 for everything else that failed
 */
export async function runMtl(argv: readonly string[]): Promise<number> {
  try {
    const words = argv[0] === 'run' ? ['run', ...withDashes(argv.slice(1))] : [...argv];
    const program = createProgram();
    const explained = commandOfHelp(program, words);
    if (explained === undefined) await program.parseAsync(words, { from: 'user' });
    else explained.outputHelp();
    return 0;
  } catch (error) {
    // Help and version end this way.
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    process.stderr.write(`${formatError(error, { debug: argv.includes('--debug') })}\n`);
    return error instanceof Interruption ? error.exitStatus : exitCodeOf(error);
  }
}
