// npm run dev -- run-index: measures how long the server needs for the metrics.jsonl of a long run: for the
// first read, for reading one more step, and for the points of a chart. Checks the results first. Prints
// medians over several files and steps.
import { statSync } from 'node:fs';
import { availableParallelism, loadavg } from 'node:os';
import { join } from 'node:path';
import { RunIndex } from '../../../packages/dashboard/src/run-index.js';
import { RunFolders, step, steps } from '../../../packages/dashboard/test/run-folders.js';

const numSteps = 100_000;
const numFiles = 5;
const numMore = 21;
const spikeAt = 77_777;

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;

async function milliseconds(action: () => unknown): Promise<number> {
  const started = performance.now();
  await action();
  return performance.now() - started;
}

const load = loadavg()[0]!.toFixed(1);
console.log(
  `${availableParallelism()} cores, load ${load} before the start (times count where it is near 0)`,
);
const folders = new RunFolders();
try {
  const first: number[] = [];
  const more: number[] = [];
  const chart: number[] = [];
  const records = steps(1, numSteps);
  records[spikeAt - 1] = step(spikeAt, { lm_loss: 99 });
  const series = { name: 'lm_loss', axis: 'iteration', numPoints: 1300, smoothing: 0.9 } as const;
  let bytes = 0;
  for (let file = 0; file < numFiles; file++) {
    const name = `run-${file}`;
    folders.append(name, ...records);
    const path = join(folders.path, name, 'metrics.jsonl');
    bytes = statSync(path).size;
    const index = new RunIndex(path);
    first.push(await milliseconds(() => index.update()));
    const { y } = index.series(series)!;
    const isRight = index.steps.length === numSteps && Math.max(...y.map(Number)) === 99;
    if (!isRight) throw new Error(`${index.steps.length} steps were read, or the spike was lost`);
    for (let one = 1; one <= numMore; one++) {
      folders.append(name, step(numSteps + one));
      more.push(await milliseconds(() => index.update()));
      chart.push(await milliseconds(() => index.series(series)));
    }
    if (index.steps.length !== numSteps + numMore) throw new Error('a step that was added was not read');
  }
  console.log(
    `${numSteps} steps (${(bytes / 1e6).toFixed(1)} MB): first read ${median(first).toFixed(0)} ms, ` +
      `one more step ${median(more).toFixed(2)} ms, points of a chart ${median(chart).toFixed(2)} ms`,
  );
} finally {
  folders.dispose();
}
