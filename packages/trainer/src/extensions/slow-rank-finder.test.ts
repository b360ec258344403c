import { describe, expect, it } from 'vitest';
import { SlowRankFinder } from './slow-rank-finder.js';

const hosts = ['a', 'a', 'b', 'b', 'c', 'c', 'd', 'd'];
// the second stage has more work
const peers = [
  [0, 1, 2, 3],
  [4, 5, 6, 7],
];
const usual = [100, 102, 98, 101, 150, 151, 149, 152];

const collectEvents = (
  intervals: ReadonlyArray<readonly number[]>,
  { groups = peers, leastIntervalMs = 0 }: { groups?: number[][]; leastIntervalMs?: number | undefined } = {},
) => {
  const finder = new SlowRankFinder({ peers: groups, hosts, leastIntervalMs });
  return intervals.flatMap((computeMs, index) =>
    finder.add({ iteration: index + 1, numSteps: 2, computeMs }),
  );
};

it('names a rank that is slower than its peers for three intervals, once, and says when that is over', () => {
  const slow = usual.with(2, 115);
  const events = collectEvents([usual, slow, slow, slow, slow, usual, usual]);
  expect(
    events.map(({ iteration, fields }) => [iteration, fields.rank, fields.host, fields.is_slow]),
  ).toEqual([
    [4, 2, 'b', true],
    [6, 2, 'b', false],
  ]);
  expect(events[0]!.text).toBe(
    'rank 2 (host b) is 14 % slower than others for 3 intervals: 115.0 ms of computation a step, median of its pipeline stage 101.0 ms',
  );
});

it('is silent about less than 10 %, about shorter times, and about stages that differ', () => {
  expect(collectEvents(Array.from({ length: 9 }, () => usual.with(2, 109)))).toEqual([]);
  const slow = usual.with(5, 300);
  expect(collectEvents([slow, slow, usual, slow, slow, usual])).toEqual([]);
});

it('compares two ranks', () => {
  const slow = usual.with(1, 200);
  const [event] = collectEvents([slow, slow, slow], { groups: [[0, 1]] });
  expect(event?.fields.rank).toBe(1);
});

describe('ranks that are pipeline stages of their own', () => {
  const groups = [[0], [1], [2]];
  const stages = [100, 150, 120];
  const first = [stages, stages, stages];
  const all = (factor: number) => stages.map((ms) => factor * ms);

  it('are compared with their first intervals, and with how the others have changed', () => {
    // all ranks take twice as long, as with larger batches, and rank 2 is also slower than its peers
    const slow = all(2).with(2, 300);
    const events = collectEvents([...first, all(2), slow, slow, slow, slow, all(2)], { groups });
    expect(events.map(({ iteration, fields }) => [iteration, fields.rank, fields.is_slow])).toEqual([
      [7, 2, true],
      [9, 2, false],
    ]);
    expect(events[0]!.text).toBe(
      'rank 2 (host b) is 25 % slower than before for 3 intervals: 300.0 ms of computation a step, by its first intervals and the other ranks 240.0 ms',
    );
    const pair = [
      [100, 150],
      [130, 150],
    ].flatMap((interval) => [interval, interval, interval]);
    expect(collectEvents(pair, { groups: [[0], [1]] }).map(({ fields }) => fields.rank)).toEqual([0]);
  });

  it('are not slow by being others than the other stages, nor all together, nor by one odd first interval', () => {
    expect(collectEvents([...first, ...first, ...first], { groups })).toEqual([]);
    expect(collectEvents([...first, all(3), all(3), all(3), all(3)], { groups })).toEqual([]);
    const odd = [all(1).with(0, 40), stages, stages, stages, stages, stages, stages];
    expect(collectEvents(odd, { groups })).toEqual([]);
    expect(collectEvents([[100], [100], [100], [300], [300], [300]], { groups: [[0]] })).toEqual([]);
  });
});

it('joins short intervals, in which a rank may be slow by chance', () => {
  // an interval is 2 steps, and the slowest rank needs 152 ms per step, so four intervals take more than a
  // second
  const slow = usual.with(2, 130);
  const often = Array.from({ length: 24 }, (_, n) => (n % 4 === 0 ? slow : usual));
  expect(collectEvents(often, { leastIntervalMs: 1000 })).toEqual([]);
  const always = Array.from({ length: 24 }, () => slow);
  const events = collectEvents(always, { leastIntervalMs: 1000 });
  expect(events.map(({ iteration, fields }) => [iteration, fields.rank])).toEqual([[12, 2]]);
});
