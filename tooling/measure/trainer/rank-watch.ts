// npm run dev -- rank-watch: measures the cost of finding slow ranks in a run with two processes: the
// milliseconds that the slowest rank needs for a report and its record in metrics.jsonl. The report's content
// is checked first. Fails if reports at their usual interval take 0.1 % of the step time or more. The first
// reports, for which Node.js has not compiled the code yet, and the last report, which waits for all ranks,
// are listed separately, because they occur only once per run. The result is the median over the reports,
// because a report that another process interrupts takes much longer.
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { runLocalRanks } from '@mtl/comm/testing';
import { typescriptThreads } from '@mtl/tooling/typescript-threads';
import type { WatchCost, WatchCostArgument } from './ranks/measure-watch.js';

const worldSize = 2;
const mostPercent = 0.1;
const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
const load = loadavg()[0]!.toFixed(1);
console.log(
  `${availableParallelism()} cores, load ${load} before the start (times count where it is near 0)`,
);
const directory = mkdtempSync(join(tmpdir(), 'mtl-rank-watch-'));
let isTooMuch = false;
try {
  for (const reports of ['after every step', 'as in every run'] as const) {
    const argument: WatchCostArgument = {
      // a step of the default preset takes 100 ms on two cores
      ...(reports === 'after every step'
        ? { stepMs: 20, numSteps: 200, numFirstSteps: 100 }
        : { stepMs: 100, numSteps: 320, numFirstSteps: 20 }),
      path: join(directory, `${reports}.jsonl`),
      ...(reports === 'after every step' ? { leastReportMs: 0 } : {}),
    };
    const ranks = await runLocalRanks<WatchCost>({
      module: new URL('./ranks/measure-watch.ts', import.meta.url),
      worldSize,
      argument,
      timeoutMs: 60_000,
      ...typescriptThreads,
    });
    const most = (of: (rank: WatchCost) => number): number => Math.max(...ranks.map(of));
    const numReports = ranks[0]!.reportMs.length;
    const medianMs = most(({ reportMs }) => median(reportMs));
    const meanMs = most(({ reportMs }) => reportMs.reduce((sum, ms) => sum + ms, 0) / reportMs.length);
    const percent = (100 * medianMs * numReports) / most(({ stepsMs }) => stepsMs);
    console.log(
      `reports ${reports}: ${numReports} in ${argument.numSteps - argument.numFirstSteps} steps of ${argument.stepMs} ms, ` +
        `${medianMs.toFixed(3)} ms a report (median; mean ${meanMs.toFixed(3)} ms), ${percent.toFixed(4)} % of the steps; ` +
        `once a run, at its start and end: ${most(({ onceMs }) => onceMs).toFixed(1)} ms`,
    );
    if (reports === 'as in every run') isTooMuch = percent >= mostPercent;
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}
if (isTooMuch) {
  console.error(`more than ${mostPercent} %`);
  process.exitCode = 1;
}
