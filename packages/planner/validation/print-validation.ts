// Prints predictions of measured steps, and the errors of each set, fitted and held-out rows apart.
// Usage: npm run validate

import { paperRows } from './paper-rows.js';
import { passKinds } from './pass-kinds.js';
import { predictRow } from './predict-row.js';
import { summarize } from './summarize.js';

for (const row of paperRows) {
  const { seconds, breakdown } = predictRow(row);
  const error = 100 * (seconds / row.seconds - 1);
  const shares = passKinds
    .map((kind) => `${kind} ${((100 * breakdown[kind]) / seconds).toFixed(0)}`)
    .join(' ');
  console.log(
    `${row.set.padEnd(20)} ${row.name.padEnd(28)} ${row.seconds.toFixed(2).padStart(7)} s ${seconds.toFixed(2).padStart(7)} s ${error.toFixed(1).padStart(6)} %${row.fitted ? ' fitted' : '       '} | ${shares}`,
  );
}
console.log();
for (const line of summarize(paperRows.map((row) => ({ ...row, predicted: predictRow(row).seconds })))) {
  console.log(line);
}
