import { type Flags, formatHelp, type ModelKind, type ParsedFlags } from '@mtl/configuration';
import { planning } from '@mtl/planning';
import { runTrainingProgram } from '@mtl/runs';
import type { Command } from 'commander';
import { newCommand } from '../command-line/new-command.js';
import { summaries } from './summaries.js';

/**
 * Creates the commands `mtl train gpt` and `mtl train bert`, which do the same as the programs gpt-train and
 * bert-train.
 */
export function trainCommand(): Command {
  return newCommand('train', summaries.train)
    .addCommand(
      trainingCommand({
        name: 'gpt',
        summary: 'Pretrains a GPT or a model of the Llama family.',
        description: 'Trains a GPT.',
        model: 'gpt',
        program: 'mtl train gpt',
      }),
    )
    .addCommand(
      trainingCommand({
        name: 'bert',
        summary: 'Pretrains a BERT.',
        description: 'Pretrains a BERT.',
        model: 'bert',
        program: 'mtl train bert',
      }),
    );
}

export interface TrainingCommandOptions {
  readonly name: string;
  /** The description of the command in the list of commands. */
  readonly summary: string;
  /** The text at the beginning of the command's help. */
  readonly description: string;
  readonly model: ModelKind;
  /** The words that start the command, such as `mtl sft`. */
  readonly program: string;
  /** Values for flags that command line, file, checkpoint and preset all leave unset. */
  readonly defaults?: Flags;
  /** Checks the flags of the command line. Throws an error for flags that the command rejects. */
  readonly checkFlags?: (flags: ParsedFlags) => void;
  /**
   * Converts the words of the command line to flags of a training run. Default: the words already are such
   * flags.
   */
  readonly rewriteFlags?: (words: readonly string[]) => readonly string[];
}

/**
 * Makes a command that runs a training program. The program parses all flags itself, and prints its own help
 * and errors.
 */
export function trainingCommand(options: TrainingCommandOptions): Command {
  const { name, summary, description, model, program, defaults = {}, checkFlags } = options;
  const command = newCommand(name, summary)
    .argument('[flags...]', 'Flags of a training run.')
    .allowUnknownOption()
    .helpOption(false)
    .action(async (_words: readonly string[], given: { readonly debug?: true }) => {
      const words = [...command.args, ...(given.debug === true ? ['--debug'] : [])];
      const argv = options.rewriteFlags?.(words) ?? words;
      await runTrainingProgram({ argv, model, program, description, defaults, checkFlags, planning });
    });
  command.helpInformation = () =>
    `${formatHelp({ program, description, model, columns: process.stdout.columns })}\n`;
  return command;
}
