import { createRequire } from 'node:module';
import type { Command } from 'commander';
import { newCommand } from './command-line/new-command.js';

// this file stays directly in `src`: its build is directly in `dist`, at the same distance from package.json
const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

/** Returns the command `mtl` without its subcommands. */
export const newProgram = (): Command =>
  newCommand(
    'mtl',
    'Starts and plans training runs; prepares data; fine-tunes, evaluates, generates, converts; checks the machine.',
  ).version(version, '-V, --version', 'Shows the version.');
