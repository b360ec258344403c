import { isFlagName } from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';
import type { Command } from 'commander';
import { pathOf } from './path-of.js';

/**
 * Refuses options of a command among the flags of the training run, which follow `--`.
 *
 * @throws ConfigurationError `MTL_FLAG_ARGUMENT`
 */
export function refuseOwnOptions(flags: readonly string[], command: Command): void {
  const own = flags
    .map((word) => word.split('=', 1)[0]!)
    .filter((word) => word.startsWith('--') && word !== '--debug' && !isFlagName(word.slice(2)))
    .find((word) => command.options.some(({ long }) => long === word));
  if (own === undefined) return;
  const path = pathOf(command);
  throw new ConfigurationError('MTL_FLAG_ARGUMENT', `${own} is a flag of ${path}, not of the training run`, {
    expected: `${path} ${own} ... -- FLAGS`,
    remedy: `put it before --; ${path} --help lists the flags of ${path}`,
  });
}
