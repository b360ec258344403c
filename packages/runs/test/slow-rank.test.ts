import { hostname } from 'node:os';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { processTestMs } from './support/run-processes.js';
import { TrainingRuns } from './support/training-runs.js';

let runs: TrainingRuns;
beforeAll(async () => {
  // twelve intervals, so that three in a row remain if other load on the machine hides the slow rank twice
  runs = await TrainingRuns.create({ logging: { logInterval: 2 }, training: { evalIterations: 0 } });
});
afterAll(() => runs.remove());

it('names the process that computes longer than the others, with its host', {
  timeout: processTestMs,
}, async () => {
  // a step of this model takes about ten milliseconds
  const [results] = await runs.runInProcesses(3, [
    { name: 'slow', options: { training: { globalBatchSize: 9 } }, slowRank: { rank: 1, ms: 200 } },
  ]);
  const [first, ...others] = results!;
  const named = new RegExp(
    `^ rank 1 \\(host ${hostname()}\\) is \\d+ % slower than others for 3 intervals: [\\d.]+ ms of computation a step`,
    'm',
  );
  expect(first!.output).toMatch(named);
  expect(first!.output).not.toMatch(/^ rank [02] /m);
  for (const { output } of others) expect(output).toBe('');
  const records = runs.readRecords('slow').filter(({ type }) => type === 'slow_rank');
  expect(records[0]).toMatchObject({ rank: 1, host: hostname(), is_slow: true });
  expect(records[0]!.iteration).toBeGreaterThanOrEqual(6);
  const { compute_ms, median_compute_ms } = records[0]!;
  expect((compute_ms as number) - (median_compute_ms as number)).toBeGreaterThan(100);
  expect(new Set(records.map(({ rank }) => rank))).toEqual(new Set([1]));
});
