import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { expect, it } from 'vitest';
import type { TrainingEvent } from '../src/index.js';
import type { WatchRanksArgument } from './ranks/watch-ranks.js';

const watched = (argument: WatchRanksArgument) =>
  runInMemoryRanks<readonly TrainingEvent[]>({
    worldSize: 3,
    ...rankThreads(new URL('./ranks/watch-ranks.ts', import.meta.url)),
    argument,
  });

it.each(['host', 'device'] as const)(
  'tells all ranks what each rank computes without communication, and which one is slow, where the %s waits',
  async (waits) => {
    const results = await watched({ slowRank: 1, slowSteps: [3, 4, 5, 6, 7, 8], numSteps: 10, waits });
    const [events] = results;
    for (const other of results) expect(other).toEqual(events);
    const intervals = events!.filter(({ type }) => type === 'ranks');
    expect(intervals.map(({ iteration }) => iteration)).toEqual([2, 4, 6, 8, 10]);
    // sums of such clocks are exact to far less than a microsecond
    const rounded = (values: unknown): number[] =>
      (values as number[]).map((value) => Math.round(value * 1e6) / 1e6);
    expect(rounded(intervals[0]!.fields.compute_ms)).toEqual([100, 100, 100]);
    expect(rounded(intervals[1]!.fields.compute_ms)).toEqual([100, 130, 100]);
    expect(rounded(intervals[1]!.fields.waited_ms)).toEqual([30, 0, 30]);
    expect(intervals.map(({ fields }) => fields.hosts)).toEqual([
      ['a', 'b', 'c'],
      ...Array(4).fill(undefined),
    ]);
    expect(intervals[4]!.fields.peak_bytes).toEqual([10, 20, 30]);
    const named = events!.filter(({ type }) => type === 'slow_rank');
    expect(
      named.map(({ iteration, fields }) => [iteration, fields.rank, fields.host, fields.is_slow]),
    ).toEqual([
      [8, 1, 'b', true],
      [10, 1, 'b', false],
    ]);
  },
);

it('names a rank that becomes slow where each rank is a pipeline stage of its own', async () => {
  const slowSteps = Array.from({ length: 6 }, (_, at) => 9 + at);
  const results = await watched({ slowRank: 2, slowSteps, numSteps: 14, peers: [[0], [1], [2]] });
  const named = results.map((events) => events.filter(({ type }) => type === 'slow_rank'));
  for (const events of named) {
    expect(events).toMatchObject([{ iteration: 14, fields: { rank: 2, host: 'c', is_slow: true } }]);
  }
});

it('gathers at multiples of the interval that are far enough apart, whatever the interval is', async () => {
  const steps = { slowRank: 1, slowSteps: [], numSteps: 55 };
  // a report every five seconds, or 50 steps of 100 ms; the steps at the end of the run are reported too
  const byDefault = await watched({ ...steps, leastReportMs: 'default' });
  const iterations = (events: readonly TrainingEvent[]): readonly number[] =>
    events.filter(({ type }) => type === 'ranks').map(({ iteration }) => iteration);
  for (const events of byDefault) expect(iterations(events)).toEqual([2, 52, 55]);
  const [others] = await watched({ ...steps, leastReportMs: 900 });
  expect(iterations(others!)).toEqual([2, 12, 22, 32, 42, 52, 55]);
});

it('gathers more seldom where steps become shorter, as all ranks agree', async () => {
  // the first steps are slow on rank 2 alone
  const slowSteps = [1, 2];
  const results = await watched({ slowRank: 2, slowSteps, numSteps: 20, leastReportMs: 510 });
  for (const events of results) expect(events.map(({ iteration }) => iteration)).toEqual([2, 6, 12, 18, 20]);
});
