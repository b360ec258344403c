import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { buildIndexCommand } from './build-index.js';
import { inspectCommand, mergeCommand, verifyCommand } from './datasets.js';
import { prepareCommand } from './prepare.js';
import { trainTokenizerCommand } from './train-tokenizer.js';

/** `mtl data`: everything that makes and checks datasets. */
export function dataCommand(): Command {
  return newCommand('data', 'Creates, inspects and checks datasets and tokenizers.')
    .addCommand(prepareCommand())
    .addCommand(inspectCommand())
    .addCommand(verifyCommand())
    .addCommand(mergeCommand())
    .addCommand(buildIndexCommand())
    .addCommand(trainTokenizerCommand());
}
