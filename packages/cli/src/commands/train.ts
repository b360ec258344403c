import type { Command } from 'commander';
import { newCommand } from '../command-line/new-command.js';
import { trainingCommand } from '../command-line/training-command.js';

/** `mtl train gpt` and `mtl train bert`: the programs gpt-train and bert-train as commands. */
export function trainCommand(): Command {
  return newCommand(
    'train',
    'Pretrains a GPT or a BERT; without flags a small one, on a corpus that is included.',
  )
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
