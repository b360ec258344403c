import { compareRuns, type Difference, type LossComparison, readRun, runDirectoryOf } from '@mtl/runs';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { runJson } from './runs-json.js';

/** `mtl runs diff`: what differs between two runs. */
export function diffRunsCommand(): Command {
  return newCommand('diff', 'Compares the flags, versions and losses of two runs.')
    .argument('<a>', 'A run: its folder, or its name in runs.')
    .argument('<b>', 'Another one.')
    .option('--json', 'Prints JSON.')
    .action(diff);
}

async function diff(a: string, b: string, { json }: { readonly json?: true }): Promise<void> {
  const directories = [runDirectoryOf(a), runDirectoryOf(b)] as const;
  const runs = [await readRun(directories[0]), await readRun(directories[1])] as const;
  const comparison = compareRuns(runs);
  if (json === true) {
    const described = { runs: runs.map(runJson), ...comparison };
    // what one of them does not have is null there
    process.stdout.write(`${JSON.stringify(described, (_, value: unknown) => value ?? null)}\n`);
    return;
  }
  const { flags, conditions, losses } = comparison;
  const noRecord = runs.filter(({ record }) => record === undefined).map(({ directory }) => directory);
  const missing = noRecord.map(
    (directory) => `note: ${directory} has no run.json, only its losses are compared\n`,
  );
  process.stdout.write(
    `${missing.join('')}${section('flags', directories, flags.map(flagOf))}${section('conditions', directories, conditions)}` +
      formatLosses(losses),
  );
}

const flagOf = ({ name, values }: Difference): Difference => ({ name: `--${name}`, values });

function section(
  title: string,
  directories: readonly [string, string],
  differences: readonly Difference[],
): string {
  if (differences.length === 0) return `${title}: no difference\n`;
  const rows = [
    ['', ...directories],
    ...differences.map(({ name, values }) => [name, ...values.map(valueText)]),
  ];
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]!.length)));
  const lines = rows.map(
    ([name, one, other]) => `  ${name!.padEnd(widths[0]!)}  ${one!.padEnd(widths[1]!)}  ${other}`,
  );
  return `${title}\n${lines.join('\n')}\n`;
}

function valueText(value: unknown): string {
  if (value === undefined || value === null) return '-';
  return Array.isArray(value) ? value.join(' ') : String(value);
}

function formatLosses({ commonSteps, firstDifference, largest, last, validation }: LossComparison): string {
  if (last === undefined) return 'losses: no step in common\n';
  const of = (losses: readonly (number | null)[]): string =>
    losses.map((loss) => (loss === null ? 'not finite' : loss.toPrecision(7))).join(' and ');
  const equal =
    firstDifference === undefined ? ', all equal to the last bit' : `, equal before ${firstDifference}`;
  const lines = [
    `${commonSteps} steps in common${equal}`,
    ...(largest === undefined
      ? []
      : [
          `largest difference ${largest.relative.toExponential(1)} of the loss, at step ${largest.iteration}`,
        ]),
    `at step ${last.iteration}: ${of(last.losses)}`,
    ...(validation === undefined
      ? []
      : [`validation at step ${validation.iteration}: ${of(validation.losses)}`]),
  ];
  return `losses\n${lines.map((line) => `  ${line}\n`).join('')}`;
}
