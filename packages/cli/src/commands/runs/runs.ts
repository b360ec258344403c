import { directoryOfRuns, listRuns, type RunInformation, runsDirectory } from '@mtl/runs';
import { formatBytes } from '@mtl/trainer/internal';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { diffRunsCommand } from './diff.js';
import { removeRunsCommand } from './remove.js';
import { runJson } from './runs-json.js';
import { sendRunsCommand } from './send.js';

/** `mtl runs`: lists the runs in a directory, compares two, removes some, sends metrics. */
export function runsCommand(): Command {
  return newCommand(
    'runs',
    'Lists training runs with their steps, losses, size and state; compares them, removes them, sends their metrics.',
  )
    .argument('[directory]', 'A directory of runs, the folder of one, or its name in runs.', runsDirectory)
    .option('--json', 'Prints JSON.')
    .action(list)
    .addCommand(diffRunsCommand())
    .addCommand(removeRunsCommand())
    .addCommand(sendRunsCommand());
}

async function list(word: string, { json }: { readonly json?: true }): Promise<void> {
  const directory = directoryOfRuns(word);
  const runs = await listRuns(directory);
  if (json === true) {
    process.stdout.write(`${JSON.stringify(runs.map(runJson))}\n`);
    return;
  }
  if (runs.length === 0) process.stdout.write(`${directory} holds no run\n`);
  else process.stdout.write(formatRuns(runs));
}

function formatRuns(runs: readonly RunInformation[]): string {
  const rows = runs.map((run) => {
    const { name, state, iteration, trainIterations, loss, validationLoss, bytes, starts } = runJson(run);
    const steps = trainIterations === null ? `${iteration}` : `${iteration} of ${trainIterations}`;
    const started = starts[0]?.time.slice(0, 16).replace('T', ' ') ?? '-';
    return [name, state, steps, lossText(loss), lossText(validationLoss), formatBytes(bytes), started];
  });
  return formatColumns([['run', 'state', 'steps', 'loss', 'validation', 'size', 'started (UTC)'], ...rows]);
}

const lossText = (loss: number | null): string => (loss === null ? '-' : loss.toFixed(4));

function formatColumns(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}
