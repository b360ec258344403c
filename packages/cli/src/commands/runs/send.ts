import { TrainingError } from '@mtl/errors';
import { runDirectoryOf, sendRun } from '@mtl/runs';
import { deliveryText } from '@mtl/tracking/internal';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';

/** `mtl runs send`: sends metrics that tracking services did not take while runs trained. */
export function sendRunsCommand(): Command {
  return newCommand('send', 'Sends metrics that wandb or MLflow did not take while runs trained.')
    .argument('<run...>', 'Runs that have ended: their folders, or their names in runs.')
    .option('--json', 'Prints JSON, one object per run.')
    .action(send);
}

async function send(names: readonly string[], { json }: { readonly json?: true }): Promise<void> {
  const onMessage = (text: string): void => {
    process.stderr.write(`${text}\n`);
  };
  let numKept = 0;
  for (const directory of new Set(names.map(runDirectoryOf))) {
    const services = await sendRun({ directory, environment: process.env, onMessage });
    numKept += services.filter(({ kept, problem }) => kept > 0 || problem !== undefined).length;
    if (json === true) process.stdout.write(`${JSON.stringify({ directory, services })}\n`);
    else {
      for (const service of services)
        process.stdout.write(`${directory}: ${service.title}: ${deliveryText(service, directory)}\n`);
    }
  }
  if (numKept > 0) {
    throw new TrainingError('MTL_TRACKING_KEPT', `${numKept} services did not take everything`, {
      expected: 'services that can be reached, and that take the run',
      remedy: 'run the command again later: it sends what is left',
    });
  }
}
