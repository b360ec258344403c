// npm run bench: what it costs a run of two processes to find slow ranks: the milliseconds of the slowest
// rank for a report, with its record in metrics.jsonl, after checking what it reports. Fails where reports as
// far apart as they are in every run cost 0.1 % of its steps or more.
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { runLocalRanks } from '@mtl/comm/testing';
import type { WatchCost, WatchCostArgument } from './ranks/measure-watch.js';

const worldSize = 2;
const mostPercent = 0.1;
const load = loadavg()[0]!.toFixed(1);
console.log(
  `${availableParallelism()} cores, load ${load} before the start (times count where it is near 0)`,
);
const directory = mkdtempSync(join(tmpdir(), 'mtl-rank-watch-'));
let isTooMuch = false;
try {
  for (const reports of ['after every step', 'as in every run'] as const) {
    const argument: WatchCostArgument = {
      stepMs: 20,
      numSteps: reports === 'after every step' ? 200 : 600,
      path: join(directory, `${reports}.jsonl`),
      ...(reports === 'after every step' ? { leastReportMs: 0 } : {}),
    };
    const ranks = await runLocalRanks<WatchCost>({
      module: new URL('./ranks/measure-watch.ts', import.meta.url),
      worldSize,
      argument,
      timeoutMs: 60_000,
    });
    const most = (key: keyof WatchCost): number => Math.max(...ranks.map((rank) => rank[key]));
    const [numReports, watchMs] = [most('numReports'), most('watchMs')];
    const percent = (100 * watchMs) / most('stepsMs');
    console.log(
      `reports ${reports}: ${numReports} in ${argument.numSteps} steps of ${argument.stepMs} ms, ` +
        `${(watchMs / numReports).toFixed(3)} ms a report, ${percent.toFixed(4)} % of the steps`,
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
