import { directoryOfRuns, runsDirectory } from '@mtl/run-records';
import type { Command } from 'commander';
import { newCommand } from '../command-line/new-command.js';
import { numberOption } from '../command-line/option-values.js';
import { summaries } from './summaries.js';

interface WatchFlags {
  readonly host: string;
  readonly port: number;
}

const examples = `
Examples:
  mtl watch
  mtl watch my-run                # the run in runs/my-run
  mtl watch --host 0.0.0.0        # for other machines: the address then contains a token
  ssh -L 4242:localhost:4242 HOST # the page of another machine, at http://localhost:4242`;

/**
 * Creates the command `mtl watch`, which serves a page with training runs, during the runs and afterwards.
 */
export function watchCommand(): Command {
  return newCommand('watch', summaries.watch)
    .argument('[runs]', 'A directory of runs, the folder of one, or its name in runs.', runsDirectory)
    .option('--host <address>', 'The address to listen on; any but loopback needs a token.', '127.0.0.1')
    .addOption(
      numberOption('--port <n>', 'The port to listen on; 0 for one that is free.', {
        least: 0,
        most: 65535,
      }).default(4242),
    )
    .addHelpText('after', examples)
    .action(watch);
}

async function watch(word: string, { host, port }: WatchFlags): Promise<void> {
  const directory = directoryOfRuns(word);
  // the package is imported lazily, because only this command needs it
  const { openDashboard } = await import('@mtl/dashboard');
  const dashboard = await openDashboard({ directory, host, port });
  const { numRuns, url } = dashboard;
  const waiting = numRuns === 0 ? ', shown as soon as they begin' : '';
  process.stdout.write(
    `${directory}: ${numRuns} run${numRuns === 1 ? '' : 's'}${waiting}\n${url}\nCtrl-C ends it\n`,
  );
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
  });
  await dashboard.close();
}
