import { type Flags, formatHelp, type ModelKind, type ParsedFlags } from '@mtl/configuration';
import { planning } from '@mtl/planning';
import { runTrainingProgram } from '@mtl/runs';
import type { Command } from 'commander';
import { newCommand } from '../command-line/new-command.js';
import { summaries } from './summaries.js';

/** `mtl train gpt` and `mtl train bert`: the programs gpt-train and bert-train as commands. */
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
  /** The command's line in the list of commands. */
  readonly summary: string;
  /** The text at the beginning of the command's help. */
  readonly description: string;
  readonly model: ModelKind;
  /** The words typed to start it, such as `mtl sft`. */
  readonly program: string;
  /** Values of flags that no command line, file, checkpoint or preset sets. */
  readonly defaults?: Flags;
  /** Refuses flags of the command line, by throwing. */
  readonly checkFlags?: (flags: ParsedFlags) => void;
  /** The words of the command line as flags of a training run; by default they are flags already. */
  readonly rewriteFlags?: (words: readonly string[]) => readonly string[];
}

/**
 * Returns a command that is a training program: it reads all flags of training itself, with their help and
 * errors.
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
