import { expect, it } from 'vitest';
import { SlowRankFinder } from './slow-rank-finder.js';

const hosts = ['a', 'a', 'b', 'b', 'c', 'c', 'd', 'd'];
// the second stage has more work
const peers = [
  [0, 1, 2, 3],
  [4, 5, 6, 7],
];
const usual = [100, 102, 98, 101, 150, 151, 149, 152];

const eventsOf = (
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
  const events = eventsOf([usual, slow, slow, slow, slow, usual, usual]);
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
  expect(eventsOf(Array.from({ length: 9 }, () => usual.with(2, 109)))).toEqual([]);
  const slow = usual.with(5, 300);
  expect(eventsOf([slow, slow, usual, slow, slow, usual])).toEqual([]);
});

it('compares two ranks, and none that has no peers', () => {
  const slow = usual.with(1, 200);
  const rank = (groups: number[][]) =>
    eventsOf([slow, slow, slow], { groups }).map(({ fields }) => fields.rank);
  expect(rank([[0, 1]])).toEqual([1]);
  expect(rank([[0], [1]])).toEqual([]);
});

it('joins short intervals, in which a rank may be slow by chance', () => {
  // 2 steps of 152 ms of the slowest rank: four intervals are a second and more
  const slow = usual.with(2, 130);
  const often = Array.from({ length: 24 }, (_, n) => (n % 4 === 0 ? slow : usual));
  expect(eventsOf(often, { leastIntervalMs: 1000 })).toEqual([]);
  const always = Array.from({ length: 24 }, () => slow);
  const events = eventsOf(always, { leastIntervalMs: 1000 });
  expect(events.map(({ iteration, fields }) => [iteration, fields.rank])).toEqual([[12, 2]]);
});
