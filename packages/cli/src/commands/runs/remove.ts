import { resolve } from 'node:path';
import { ConfigurationError } from '@mtl/errors';
import { contentsOfRun, readRun, removeRun, runDirectoryOf } from '@mtl/runs';
import { formatBytes } from '@mtl/trainer/internal';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';

/** `mtl runs remove`: deletes what runs wrote into their folders. */
export function removeRunsCommand(): Command {
  return newCommand('remove', 'Deletes runs: checkpoints, metrics and records; other files stay.')
    .argument('<run...>', 'Runs: their folders, or their names in runs.')
    .option('--yes', 'Deletes them; without it the runs and their sizes are listed only.')
    .option('--json', 'Prints JSON.')
    .action(remove);
}

async function remove(names: readonly string[], { yes, json }: { yes?: true; json?: true }): Promise<void> {
  const directories = [...new Set(names.map((name) => resolve(runDirectoryOf(name))))];
  const runs = await Promise.all(directories.map(readRun));
  const running = runs.find(({ state }) => state === 'running');
  if (running !== undefined) {
    throw new ConfigurationError('MTL_RUN_RUNNING', `${running.directory} is a run under way`, {
      expected: 'runs that have ended',
      remedy: 'end it first, or leave it out: nothing was deleted',
    });
  }
  const removed: Array<{
    readonly directory: string;
    readonly bytes: number;
    readonly left: readonly string[];
  }> = [];
  for (const { directory, bytes, name } of runs) {
    if (yes !== true) {
      const { own } = contentsOfRun(directory);
      process.stderr.write(`${name}: ${formatBytes(bytes)} in ${directory}: ${own.join(' ')}\n`);
      continue;
    }
    const { left } = await removeRun(directory);
    removed.push({ directory, bytes, left });
    if (json !== true) process.stdout.write(`removed ${directory}${leftText(left)}\n`);
  }
  if (yes !== true) {
    throw new ConfigurationError('MTL_RUN_REMOVE', 'nothing was deleted', {
      expected: '--yes, which deletes for good',
      remedy: `mtl runs remove ${names.join(' ')} --yes`,
    });
  }
  if (json === true) process.stdout.write(`${JSON.stringify(removed)}\n`);
}

const leftText = (left: readonly string[]): string =>
  left.length === 0 ? '' : ` but for what no run wrote: ${left.join(' ')}`;
