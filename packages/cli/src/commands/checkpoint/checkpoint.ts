import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { inspectCheckpointsCommand } from './inspect.js';
import { verifyCheckpointsCommand } from './verify.js';

/** `mtl checkpoint`: what lies in a directory of checkpoints. */
export function checkpointCommand(): Command {
  return newCommand('checkpoint', 'look at and check the checkpoints of a training')
    .addCommand(inspectCheckpointsCommand())
    .addCommand(verifyCheckpointsCommand());
}
