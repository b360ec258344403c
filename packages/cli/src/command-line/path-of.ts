import type { Command } from 'commander';

/** The words that lead to a command: `mtl data merge`. */
export function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}
