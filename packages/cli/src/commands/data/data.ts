import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { summaries } from '../summaries.js';
import { buildIndexCommand } from './build-index.js';
import { inspectCommand, mergeCommand, verifyCommand } from './datasets.js';
import { prepareCommand } from './prepare.js';
import { trainTokenizerCommand } from './train-tokenizer.js';

/** Creates the command `mtl data`, whose subcommands create and check datasets. */
export function dataCommand(): Command {
  return newCommand('data', summaries.data)
    .addCommand(prepareCommand())
    .addCommand(inspectCommand())
    .addCommand(verifyCommand())
    .addCommand(mergeCommand())
    .addCommand(buildIndexCommand())
    .addCommand(trainTokenizerCommand());
}
