import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { inspectCheckpointsCommand } from './inspect.js';
import { verifyCheckpointsCommand } from './verify.js';

/** `mtl checkpoint`: the contents of a directory of checkpoints. */
export function checkpointCommand(): Command {
  return newCommand('checkpoint', 'Lists and checks the checkpoints of a training run.')
    .addCommand(inspectCheckpointsCommand())
    .addCommand(verifyCheckpointsCommand());
}
