// Prints, as Markdown, the errors in each set of rows, separately for fitted and held-out rows. Also prints,
// for every row, the components of the predicted time. Usage: npm run dev -- papers-steps, or npm run dev --
// papers-steps TEXT for the sets whose names contain TEXT, such as FSDP
import { axisFacts, communicationParts } from '@mtl/layout';
import { predictStepTime, type StepBreakdown } from '../../../packages/cost-model/src/index.js';
import { stepOfRow, summarizeErrors } from '../../../packages/cost-model/test/support/measured-row.js';
import { paperOrders } from '../../../packages/cost-model/test/support/paper-orders.js';
import { paperRows } from '../../../packages/cost-model/test/support/paper-rows.js';

const kinds = {
  matmuls: 'matmuls',
  attention: 'attention',
  kernels: 'other kernels',
  host: 'host',
  ...communicationParts((axis) => axisFacts[axis].word),
  bubble: 'bubble',
  optimizer: 'optimizer',
} satisfies Record<keyof StepBreakdown, string>;

const [only = ''] = process.argv.slice(2);
const rows = paperRows
  .filter(({ set }) => set.includes(only))
  .map((row) => {
    const { seconds, breakdown } = predictStepTime(stepOfRow(row));
    return { ...row, predicted: seconds, breakdown };
  });

printTable(
  ['set', 'rows', 'number', 'mean error', 'largest error'],
  [...new Set(rows.map(({ set }) => set))].flatMap((set) =>
    [true, false].flatMap((fitted) => {
      const members = rows.filter((row) => row.set === set && row.fitted === fitted);
      if (members.length === 0) return [];
      const { mean, most } = summarizeErrors(members);
      return [[set, fitted ? 'fitted' : 'held out', `${members.length}`, percent(mean), percent(most)]];
    }),
  ),
);
console.log('\nMeasured and predicted seconds of each row (* fitted), and percent of the predicted step:\n');
printTable(
  ['set', 'row', 'measured', 'predicted', 'error', ...Object.values(kinds)],
  rows.map(({ set, name, seconds, predicted, fitted, breakdown }) => [
    set,
    fitted ? `${name} *` : name,
    seconds.toFixed(2),
    predicted.toFixed(2),
    percent(predicted / seconds - 1),
    ...Object.keys(kinds).map((kind) =>
      Math.abs((100 * breakdown[kind as keyof StepBreakdown]) / predicted).toFixed(0),
    ),
  ]),
);

console.log('\nWhat Narayanan et al. 2021 state of figures 13 to 17, and predicted samples per second:\n');
printTable(
  ['figure', 'statement', 'predicted', 'holds'],
  paperOrders().map(({ figure, statement, predicted, holds }) => [
    figure,
    statement,
    Object.entries(predicted)
      .map(([setting, value]) => `${setting}: ${value.toPrecision(3)}`)
      .join(', '),
    holds ? 'yes' : 'no',
  ]),
);

function percent(part: number): string {
  return `${(100 * part).toFixed(1)} %`;
}

/** Prints a Markdown table with padded columns, as the repository's formatter would format it. */
function printTable(titles: readonly string[], lines: readonly (readonly string[])[]): void {
  const widths = titles.map((title, i) => Math.max(title.length, ...lines.map((line) => line[i]!.length)));
  const print = (cells: readonly string[]) =>
    console.log(`| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(' | ')} |`);
  print(titles);
  print(widths.map((width) => '-'.repeat(width)));
  for (const line of lines) print(line);
}
