import { createRequire } from 'node:module';
import type { Command } from 'commander';
import { newCommand } from './command-line/new-command.js';

// the file is resolved by package name, because builds are in directories of different depth
const { version } = createRequire(import.meta.resolve('@mtl/cli'))('../package.json') as { version: string };

/** Returns the command `mtl` without its subcommands. */
export const newProgram = (): Command =>
  newCommand(
    'mtl',
    'Starts and plans training runs; prepares data; fine-tunes, evaluates, generates, converts; checks the machine.',
  ).version(version, '-V, --version', 'Shows the version.');
