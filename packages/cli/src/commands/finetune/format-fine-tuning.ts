import type { FineTuningReport, SeedResult } from '@mtl/runs';

/** The report as a table: a row for every seed's last epoch, and the medians. */
export function formatFineTuning(report: FineTuningReport): string {
  const { task, model, epochs, globalBatchSize, learningRate, seeds, median } = report;
  const title =
    `${task}, ${model ?? 'from scratch'}: ${epochs} epochs, batch ${globalBatchSize}, ` +
    `learning rate ${learningRate}`;
  const sets = [...new Set(seeds.flatMap(({ epochs: all }) => Object.keys(all.at(-1)?.sets ?? {})))];
  const tables = sets.map((set) => {
    const names = Object.keys(
      seeds.find((seed) => lastOf(seed, set) !== undefined)!.epochs.at(-1)!.sets[set]!,
    );
    const rows = [
      ['seed', 'epoch', ...names.map((name) => name.replaceAll('_', ' '))],
      ...seeds.flatMap((seed) => {
        const scores = lastOf(seed, set);
        if (scores === undefined) return [];
        const epoch = `${seed.epochs.at(-1)!.epoch}${seed.isDone ? '' : ', not done'}`;
        return [[`${seed.seed}`, epoch, ...names.map((name) => score(name, scores[name]!))]];
      }),
      ...(median[set] === undefined
        ? []
        : [['median', '', ...names.map((name) => score(name, median[set]![name]!))]]),
    ];
    return `${set}\n${aligned(rows)}`;
  });
  const files = seeds.flatMap(({ predictions }) => predictions);
  const written = files.length === 0 ? '' : `predictions\n${files.map((file) => `  ${file}\n`).join('')}`;
  const ended = report.reason === 'done' ? '' : `left early (${report.reason}): --resume goes on\n`;
  return `${title}\n${tables.join('')}${written}${ended}`;
}

const lastOf = ({ epochs }: SeedResult, set: string) => epochs.at(-1)?.sets[set];

const score = (name: string, value: number): string => value.toFixed(name === 'loss' ? 4 : 2);

function aligned(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map((row) => `  ${row.map((cell, column) => cell.padStart(widths[column]!)).join('  ')}\n`)
    .join('');
}
